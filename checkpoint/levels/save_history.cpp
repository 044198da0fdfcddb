// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/levels/save_history.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/format/manifest_json.h"
#include "checkpoint/store/file.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;

std::string format_row(const SaveTimesRow& row) {
  Json json{{"step", row.step},
            {"bytes", row.bytes},
            {"blocked_s", row.blocked_s},
            {"local_s", row.local_s},
            {"durable_s", row.durable_s}};
  if (row.slowdown_s) json["slowdown_s"] = *row.slowdown_s;
  return json.dump_sorted();
}

std::optional<SaveTimesRow> parse_row(const std::string& line) {
  const auto json = parse_json(line);
  if (!json || !json->is_object()) return std::nullopt;
  auto step = int_member(*json, "step", 0, kMaxStep);
  auto bytes = int_member(*json, "bytes", 0, INT64_MAX);
  Json wanted{{"blocked_s", json->value("blocked_s", Json())},
              {"local_s", json->value("local_s", Json())},
              {"durable_s", json->value("durable_s", Json())}};
  const bool slowdown = json->contains("slowdown_s");
  if (slowdown) wanted["slowdown_s"] = json->value("slowdown_s", Json());
  auto times = metrics_member(Json{{"times", std::move(wanted)}}, "times");
  if (!step || !bytes || !times) return std::nullopt;
  for (const auto& [name, value] : *times)
    if (!std::isfinite(value) || value < 0 || value > 1e6) return std::nullopt;
  SaveTimesRow row{*step, static_cast<uint64_t>(*bytes), times->at("blocked_s"), times->at("local_s"),
                   times->at("durable_s")};
  if (slowdown) row.slowdown_s = times->at("slowdown_s");
  return row;
}

}  // namespace

double percentile_95(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(values.size())));
  return values[std::max<size_t>(rank, 1) - 1];
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void SaveHistory::load(Io& io, const std::string& dir) {
  auto text = read_small_file(io, dir + "/" + kSavesName, kMaxFileBytes);
  if (!text) return;
  for (const std::string& line : split(*text, '\n'))
    if (auto row = parse_row(line)) add(*row);
}

void SaveHistory::add(const SaveTimesRow& row) {
  rows_.push_back(row);
  if (rows_.size() > kRows) rows_.pop_front();
}

void SaveHistory::set_slowdown(int64_t step, double seconds) {
  if (!rows_.empty() && rows_.back().step == step) rows_.back().slowdown_s = seconds;
}

double SaveHistory::slowdown_s() const {
  std::vector<double> known;
  for (const SaveTimesRow& row : rows_)
    if (row.slowdown_s) known.push_back(*row.slowdown_s);
  return median_of(std::move(known));
}

void SaveHistory::store(Io& io, const std::string& dir) const {
  std::string text;
  for (const SaveTimesRow& row : rows_) text += format_row(row) + "\n";
  ignore(replace_file(io, dir + "/" + kSavesName, dir + "/" + kTemporaryPrefix + "saves", text, /*durable=*/false),
         "a prediction without it is made from this run alone");
}

double SaveHistory::percentile(double SaveTimesRow::*field) const {
  std::vector<double> values;
  for (const SaveTimesRow& row : rows_)
    if (row.*field > 0) values.push_back(row.*field);
  return percentile_95(std::move(values));
}

}  // namespace dl::ckpt
