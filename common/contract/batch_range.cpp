// SPDX-License-Identifier: Apache-2.0
#include "common/contract/batch_range.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr size_t kMaxValueBytes = 4096;
constexpr BatchRule kRules[] = {BatchRule::kNone, BatchRule::kLinear, BatchRule::kSqrt, BatchRule::kAdascale};

std::string form() {
  return fmt::format(
      "MIN:MAX[:MULTIPLE][,rule=none|linear|sqrt|adascale][,micro=N], in samples, each number from 1 to {}", kMaxBatch);
}

Error refuse(std::string_view value, const std::string& reason, const std::string& allowed) {
  return Error{Errc::kInvalid, fmt::format("'{}' {}; allowed: {}", printable(value), reason, allowed)};
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Result<int64_t> parse_samples(std::string_view text, const char* what) {
  if (auto samples = parse_int(text, 1, kMaxBatch)) return *samples;
  if (!is_number(text)) return refuse(text, fmt::format("is not a number of samples, as {}", what), form());
  const bool zero = text.find_first_not_of('0') == std::string_view::npos;
  return refuse(text, fmt::format("is too {} for {}", zero ? "small" : "large", what), form());
}

Status parse_option(std::string_view field, BatchRange* batch) {
  const size_t equals = field.find('=');
  const std::string_view key = field.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view{} : field.substr(equals + 1);
  if (key == "micro" && equals != std::string_view::npos) {
    DL_TRY_ASSIGN(batch->micro, parse_samples(value, "micro="));
    return {};
  }
  if (key != "rule" || equals == std::string_view::npos) return refuse(field, "is not an option of a batch", form());
  for (const BatchRule rule : kRules) {
    if (value != batch_rule_name(rule)) continue;
    batch->rule = rule;
    return {};
  }
  return refuse(value, "is not a rule for the learning rate", "rule=none, linear, sqrt or adascale");
}

}  // namespace

const char* batch_rule_name(BatchRule rule) {
  switch (rule) {
    case BatchRule::kLinear:
      return "linear";
    case BatchRule::kSqrt:
      return "sqrt";
    case BatchRule::kAdascale:
      return "adascale";
    case BatchRule::kNone:
      break;
  }
  return "none";
}

Result<BatchRange> parse_batch(std::string_view text) {
  if (text.empty()) return Error{Errc::kInvalid, "the value is empty; allowed: " + form()};
  if (text.size() > kMaxValueBytes) return refuse(text, fmt::format("is longer than {} bytes", kMaxValueBytes), form());
  const std::vector<std::string> fields = split(text, ',');
  const std::vector<std::string> numbers = split(fields.front(), ':');
  if (numbers.size() == 1 && is_number(numbers.front()))
    return refuse(text, "is one batch and no range",
                  fmt::format("{0}; for this one alone {1}:{1}", form(), numbers[0]));
  if (numbers.size() < 2 || numbers.size() > 3) return refuse(text, "is not a range of batches", form());
  BatchRange batch;
  DL_TRY_ASSIGN(batch.min, parse_samples(numbers[0], "MIN"));
  DL_TRY_ASSIGN(batch.max, parse_samples(numbers[1], "MAX"));
  if (numbers.size() == 3) {
    DL_TRY_ASSIGN(batch.multiple, parse_samples(numbers[2], "MULTIPLE"));
  }
  if (batch.max < batch.min) return refuse(text, "has a MIN above its MAX", form());
  if (batch.largest() < batch.min)
    return refuse(text, fmt::format("has no multiple of {} from {} to {}", batch.multiple, batch.min, batch.max),
                  "a MULTIPLE of which one lies from MIN to MAX");
  std::vector<std::string> seen;
  for (size_t i = 1; i < fields.size(); ++i) {
    const std::string key = fields[i].substr(0, fields[i].find('='));
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      return refuse(fields[i], "is a second " + printable(key), printable(key) + " once");
    seen.push_back(key);
    DL_TRY(parse_option(fields[i], &batch));
  }
  return batch;
}

std::string format_batch(const BatchRange& batch) {
  std::string text = fmt::format("{}:{}", batch.min, batch.max);
  if (batch.multiple != 1) text += fmt::format(":{}", batch.multiple);
  if (batch.rule != BatchRule::kNone) text += fmt::format(",rule={}", batch_rule_name(batch.rule));
  if (batch.micro > 0) text += fmt::format(",micro={}", batch.micro);
  return text;
}

Status check_batch(const BatchRange& batch, const LearnerRange& learners) {
  if (batch.largest() >= learners.max) return {};
  return Error{Errc::kConflict,
               fmt::format("'{}' has no batch for {} learners, since each needs a sample and the largest batch has {}; "
                           "allowed: a larger MAX, or at most {} learners",
                           format_batch(batch), learners.max, batch.largest(), batch.largest())};
}

}  // namespace dl
