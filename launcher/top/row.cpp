// SPDX-License-Identifier: Apache-2.0
#include "launcher/top/row.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/parse.h"
#include "launcher/top/cells.h"

namespace dl::top {
namespace {

constexpr size_t kMostText = 300;
constexpr std::array<const char*, kColumns> kHeadings = {"JOB",  "USER", "NAME", "STATE", "SINCE", "STEP", "STEP/S",
                                                         "LOSS", "LEFT", "GPU",  "CPU",   "SAVE",  "WHY"};
constexpr std::array<const char*, kColumns> kWords = {"job",  "user", "name", "state", "since", "step", "rate",
                                                      "loss", "left", "gpu",  "cpu",   "save",  "why"};

// Calls visit(name, member) for each member, in one order for reading and writing.
template <typename AnyRow, typename Visit>
void visit_members(AnyRow& row, Visit visit) {
  visit("id", row.id);
  visit("job", row.job);
  visit("target", row.target);
  visit("user", row.user);
  visit("name", row.name);
  visit("state", row.state);
  visit("reason", row.reason);
  visit("may_pause", row.may_pause);
  visit("may_resume", row.may_resume);
  visit("active", row.active);
  visit("since_ms", row.since_ms);
  visit("limit_ms", row.limit_ms);
  visit("attempt", row.attempt);
  visit("learners", row.learners);
  visit("gpus", row.gpus);
  visit("step", row.step);
  visit("saved_step", row.saved_step);
  visit("total_steps", row.total_steps);
  visit("steps_per_s", row.steps_per_s);
  visit("samples_per_s", row.samples_per_s);
  visit("loss_name", row.loss_name);
  visit("loss", row.loss);
  visit("left_ms", row.left_ms);
  visit("gpu_use", row.gpu_use);
  visit("cpus_used", row.cpus_used);
  visit("idle_gpus", row.idle_gpus);
  visit("next_save_ms", row.next_save_ms);
  visit("unread", row.unread);
}

struct ToJson {
  Json* json;
  template <typename T>
  void operator()(const char* name, const T& value) const {
    json->push_back(name, Json(value));
  }
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) const {
    if (value) json->push_back(name, Json(*value));
  }
  // JSON has no infinities: they are texts.
  void operator()(const char* name, const std::optional<double>& value) const {
    if (value) json->push_back(name, std::isfinite(*value) ? Json(*value) : Json(fmt::format("{}", *value)));
  }
};

struct FromJson {
  const Json* json;
  template <typename T>
  void operator()(const char* name, T& value) const {
    value = json->value(name, value);
  }
  template <typename T>
  void operator()(const char* name, std::optional<T>& value) const {
    if (const Json* member = json->find(name)) value = member->get<T>();
  }
  void operator()(const char* name, std::optional<double>& value) const {
    const Json* member = json->find(name);
    if (member == nullptr) return;
    if (!member->is_string())
      value = member->get<double>();
    else
      value = member->text() == "inf" ? HUGE_VAL : member->text() == "-inf" ? -HUGE_VAL : std::nan("");
  }
};

std::string step_text(const std::optional<int64_t>& step) {
  return step ? std::to_string(*step) : "-";
}

std::string per_cent(const std::optional<double>& use) {
  return use && std::isfinite(*use) ? fmt::format("{:.0f}%", *use) : "-";
}

std::string gpu_text(const Row& row) {
  if (row.gpu_use) return per_cent(row.gpu_use);
  return row.idle_gpus > 0 ? fmt::format("{} idle", row.idle_gpus) : "-";
}

std::string save_text(const Row& row, int64_t now_ms) {
  if (!row.next_save_ms) return "-";
  return *row.next_save_ms > now_ms ? time_text(*row.next_save_ms - now_ms) : "due";
}

// The place of a state in the order of a look at one's jobs: what trains, what is about to, what waits, what has ended.
int place_of_state(const std::string& state) {
  constexpr std::array<const char*, 8> kOrder = {"PROCESSING", "STORING", "DOWNLOADING", "DEPLOY",
                                                 "PENDING",    "QUEUED",  "HALTED",      "FAILED"};
  const auto* const found = std::find_if(kOrder.begin(), kOrder.end(), [&](const char* one) { return state == one; });
  return static_cast<int>(found - kOrder.begin());
}

// What a column is sorted by: a number, or a text.
struct SortKey {
  bool known = true;
  double number = 0;
  std::string text;
};

template <typename T>
SortKey key_of_number(const std::optional<T>& value) {
  const bool known = value && std::isfinite(static_cast<double>(*value));
  return {known, known ? static_cast<double>(*value) : 0, {}};
}

SortKey key_of(const Row& row, Column by) {
  switch (by) {
    case Column::kJob:
      return {};
    case Column::kUser:
      return {!row.user.empty(), 0, row.user};
    case Column::kName:
      return {!row.name.empty(), 0, row.name};
    case Column::kState:
      return {true, static_cast<double>(place_of_state(row.state)), {}};
    case Column::kSince:
      return key_of_number(row.since_ms);
    case Column::kStep:
      return key_of_number(row.step);
    case Column::kRate:
      return key_of_number(row.steps_per_s);
    case Column::kLoss:
      return key_of_number(row.loss);
    case Column::kLeft:
      return key_of_number(row.left_ms);
    case Column::kGpu:
      return key_of_number(row.gpu_use);
    case Column::kCpu:
      return key_of_number(row.cpus_used);
    case Column::kSave:
      return key_of_number(row.next_save_ms);
    case Column::kWhy:
      return {!row.reason.empty(), 0, row.reason};
  }
  return {};
}

// Compares the numbers in "9", "10", "12_3" and "12.2" as numbers.
bool is_earlier_job(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const auto run = [&](const std::string& text, size_t* at) {
        while (*at + 1 < text.size() && text[*at] == '0' && is_digit(text[*at + 1])) ++*at;
        const size_t begin = *at;
        while (*at < text.size() && is_digit(text[*at])) ++*at;
        return text.substr(begin, *at - begin);
      };
      const std::string left = run(a, &i), right = run(b, &j);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

}  // namespace

Json row_json(const Row& row) {
  Json json = Json::object();
  visit_members(row, ToJson{&json});
  return json;
}

Result<Row> row_of(const Json& json) {
  if (!json.is_object()) return Error{Errc::kInvalid, "a row of dlctl top is not an object"};
  try {
    Row row;
    visit_members(row, FromJson{&json});
    return row;
  } catch (const JsonError& error) {
    return Error{Errc::kInvalid, std::string("a row of dlctl top: ") + error.what()};
  }
}

const char* heading_of(Column column) {
  return kHeadings[static_cast<size_t>(column)];
}

std::optional<Column> column_of(std::string_view word) {
  for (size_t i = 0; i < kColumns; ++i)
    if (kWords[i] == word) return static_cast<Column>(i);
  return std::nullopt;
}

std::string column_words() {
  return join({kWords.begin(), kWords.end()}, ", ");
}

std::string cell_of(const Row& row, Column column, int64_t now_ms) {
  switch (column) {
    case Column::kJob:
      return harmless(row.job, kMostText);
    case Column::kUser:
      return row.user.empty() ? "-" : harmless(row.user, kMostText);
    case Column::kName:
      return row.name.empty() ? "-" : harmless(row.name, kMostText);
    case Column::kState:
      return harmless(row.state, kMostText);
    case Column::kSince:
      return row.since_ms ? time_text(now_ms - *row.since_ms) : "-";
    case Column::kStep:
      return step_text(row.step);
    case Column::kRate:
      return number_text(row.steps_per_s);
    case Column::kLoss:
      return number_text(row.loss);
    case Column::kLeft:
      return time_text(row.left_ms);
    case Column::kGpu:
      return gpu_text(row);
    case Column::kCpu:
      return cpus_text(row.cpus_used);
    case Column::kSave:
      return save_text(row, now_ms);
    case Column::kWhy:
      return harmless(row.reason, kMostText);
  }
  return "";
}

void sort_rows(std::vector<Row>* rows, Column by, bool descending) {
  std::stable_sort(rows->begin(), rows->end(), [&](const Row& a, const Row& b) {
    const SortKey left = key_of(a, by), right = key_of(b, by);
    if (left.known != right.known) return left.known;
    if (left.known) {
      if (left.number != right.number) return descending ? left.number > right.number : left.number < right.number;
      if (left.text != right.text) return descending ? left.text > right.text : left.text < right.text;
    }
    return descending && by == Column::kJob ? is_earlier_job(b.job, a.job) : is_earlier_job(a.job, b.job);
  });
}

}  // namespace dl::top
