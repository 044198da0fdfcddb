// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/emetrics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/parse.h"
#include "common/json/json.h"

namespace dl::metrics {
namespace {

constexpr double kMostTime = 1e14;  // ms since 1970

// The number that a member means: 0.5, "0.5" or {"type": "FLOAT", "value": "0.5"}.
std::optional<double> number_of(const Json& member) {
  const Json* value = member.is_object() ? member.find("value") : &member;
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  if (value->is_boolean()) return value->get<bool>() ? 1 : 0;
  if (!value->is_string()) return std::nullopt;
  const std::string_view text = trim(value->text());
  size_t bytes = 0;
  const double number = number_at(text, &bytes);
  if (bytes == 0 || bytes != text.size()) return std::nullopt;
  return number;
}

int64_t step_in(const Json& record) {
  const Json* times = record.find("etimes");
  if (times == nullptr) return kNoStep;
  for (const char* name : {"iteration", "iter", "step", "steps", "global_step", "train_step"}) {
    const Json* member = times->find(name);
    const std::optional<double> number = member == nullptr ? std::nullopt : number_of(*member);
    if (number && *number >= 0 && *number <= static_cast<double>(kMostStep) && *number == std::floor(*number))
      return static_cast<int64_t>(*number);
  }
  return kNoStep;
}

int64_t time_in(const Json& record) {
  const Json* meta = record.find("meta");
  const Json* member = meta == nullptr ? nullptr : meta->find("time");
  const std::optional<double> number = member == nullptr ? std::nullopt : number_of(*member);
  return number && *number >= 1 && *number <= kMostTime ? static_cast<int64_t>(*number) : 0;
}

// "val" and "eval" are validate, as in the names of values; a program may have groups of its own.
std::string group_in(const Json& record) {
  const Json* label = record.find("grouplabel");
  if (label == nullptr || !label->is_string() || label->text().empty()) return std::string(kTrain);
  std::string word = lower(label->text());
  const std::string_view known = group_of_word(word);
  // The group 'launcher' is kept for dlrun's own values; those of others count as 'train'.
  if (word == kLauncher) return std::string(kTrain);
  return known.empty() ? word : std::string(known);
}

// A number that no count can be would become a negative one, as if nothing were missing.
int64_t left_out_in(const Json& record) {
  const Json* said = record.find("left_out");
  if (said == nullptr || !said->is_number_unsigned()) return 0;
  return static_cast<int64_t>(std::min<uint64_t>(said->get<uint64_t>(), INT64_MAX));
}

}  // namespace

Result<int64_t> read_emetrics(std::string_view line, std::vector<Found>* found) {
  const Json record = Json::parse(line);
  const Json* values = record.find("values");
  if (values == nullptr || !values->is_object()) return Error{Errc::kInvalid, "it is no record of metrics"};
  const std::string group = group_in(record);
  const int64_t step = step_in(record), time = time_in(record);
  size_t count = 0;
  for (const JsonMember& member : values->members()) {
    const std::optional<double> value = number_of(member.value);
    if (!value || member.name.empty() || ++count > kMostOfRecord) continue;
    found->push_back({group, member.name, *value, step, time, true});
  }
  return left_out_in(record);
}

}  // namespace dl::metrics
