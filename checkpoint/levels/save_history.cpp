// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/levels/save_history.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/format/manifest_json.h"
#include "checkpoint/store/file.h"
#include "launcher/common/parse.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;

std::string format_row(const SaveTimesRow& row) {
  return Json{{"step", row.step},
              {"bytes", row.bytes},
              {"blocked_s", row.blocked_s},
              {"local_s", row.local_s},
              {"durable_s", row.durable_s}}
      .dump();
}

std::optional<SaveTimesRow> parse_row(const std::string& line) {
  const auto json = parse_json(line);
  if (!json || !json->is_object()) return std::nullopt;
  auto step = int_member(*json, "step", 0, kMaxStep);
  auto bytes = int_member(*json, "bytes", 0, INT64_MAX);
  auto times = metrics_member(Json{{"times",
                                    {{"blocked_s", json->value("blocked_s", Json())},
                                     {"local_s", json->value("local_s", Json())},
                                     {"durable_s", json->value("durable_s", Json())}}}},
                              "times");
  if (!step || !bytes || !times) return std::nullopt;
  for (const auto& [name, value] : *times)
    if (!std::isfinite(value) || value < 0 || value > 1e6) return std::nullopt;
  return SaveTimesRow{*step, static_cast<uint64_t>(*bytes), times->at("blocked_s"), times->at("local_s"),
                      times->at("durable_s")};
}

}  // namespace

double percentile_95(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(values.size())));
  return values[std::max<size_t>(rank, 1) - 1];
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
