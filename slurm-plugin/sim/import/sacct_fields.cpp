// SPDX-License-Identifier: Apache-2.0
// Parses single fields of sacct's lines.
#include <fmt/core.h>

#include <algorithm>
#include <ctime>

#include "common/base/parse.h"
#include "slurm-plugin/sim/import/sacct.h"

namespace dl::sim {
namespace {

constexpr int64_t kMostGpus = policy::kMostGpus;
constexpr int64_t kLastS = int64_t{1} << 40;
constexpr int64_t kLongestSpanS = int64_t{10} * 365 * 86400;

Error refuse(std::string_view text, std::string_view allowed) {
  return Error{Errc::kInvalid, fmt::format("'{}' is not accepted; allowed: {}", printable(text), allowed)};
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return text == word; });
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The number made of the `digits` digits from `at` on; -1 if they are no digits.
int number_at(std::string_view text, size_t at, size_t digits) {
  if (at + digits > text.size() || !all_digits(text.substr(at, digits))) return -1;
  int value = 0;
  for (const char c : text.substr(at, digits)) value = value * 10 + (c - '0');
  return value;
}

}  // namespace

Result<TresGpus> parse_tres_gpus(std::string_view text) {
  TresGpus found;
  int64_t typed = 0;
  int64_t untyped = -1;
  for (const std::string& entry : split(text, ',')) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) return refuse(text, "NAME=COUNT[,...], as in cpu=4,gres/gpu:a100=2");
    const std::string_view name = std::string_view(entry).substr(0, equals);
    if (name != "gres/gpu" && name.substr(0, 9) != "gres/gpu:") continue;
    const auto count = parse_int(std::string_view(entry).substr(equals + 1), 0, kMostGpus);
    if (!count) return refuse(text, fmt::format("gres/gpu=COUNT with COUNT from 0 to {}", kMostGpus));
    if (name == "gres/gpu") {
      untyped = *count;
      continue;
    }
    if (*count == 0) continue;
    typed += *count;
    ++found.types;
    found.type = name.substr(9);
  }
  if (typed > kMostGpus) return refuse(text, fmt::format("up to {} GPUs", kMostGpus));
  found.gpus = static_cast<int>(std::max(typed, untyped));
  if (found.types != 1) found.type.clear();
  found.gpus = std::max(0, found.gpus);
  return found;
}

Result<std::optional<int64_t>> parse_sacct_time(std::string_view text) {
  if (is_one_of(text, {"", "Unknown", "None", "N/A", "NONE"})) return std::optional<int64_t>();
  if (all_digits(text)) {
    const auto seconds = parse_int(text, 0, kLastS);
    if (!seconds) return refuse(text, "seconds since 1970");
    return std::optional<int64_t>(*seconds > 0 ? std::optional<int64_t>(*seconds) : std::nullopt);
  }
  constexpr std::string_view kForm = "2026-11-20T12:00:00, seconds since 1970, Unknown";
  const bool shape = text.size() == 19 && text[4] == '-' && text[7] == '-' && (text[10] == 'T' || text[10] == ' ') &&
                     text[13] == ':' && text[16] == ':';
  if (!shape) return refuse(text, kForm);
  std::tm when{};
  when.tm_year = number_at(text, 0, 4) - 1900;
  when.tm_mon = number_at(text, 5, 2) - 1;
  when.tm_mday = number_at(text, 8, 2);
  when.tm_hour = number_at(text, 11, 2);
  when.tm_min = number_at(text, 14, 2);
  when.tm_sec = number_at(text, 17, 2);
  when.tm_isdst = -1;
  const bool range = when.tm_year >= 70 && when.tm_mon >= 0 && when.tm_mon < 12 && when.tm_mday >= 1 &&
                     when.tm_mday <= 31 && when.tm_hour >= 0 && when.tm_hour < 24 && when.tm_min >= 0 &&
                     when.tm_min < 60 && when.tm_sec >= 0 && when.tm_sec <= 60;
  if (!range) return refuse(text, kForm);
  const std::time_t seconds = std::mktime(&when);
  if (seconds <= 0 || seconds > kLastS) return refuse(text, kForm);
  return std::optional<int64_t>(seconds);
}

Result<std::optional<int64_t>> parse_sacct_span(std::string_view text, int64_t unit_s) {
  if (is_one_of(text, {"", "Partition_Limit", "Unknown", "INVALID", "None", "N/A"})) return std::optional<int64_t>();
  if (is_one_of(text, {"UNLIMITED", "infinite"})) return std::optional<int64_t>(kUnlimitedS);
  if (all_digits(text)) {
    const auto value = parse_int(text, 0, kLongestSpanS);
    if (!value) return refuse(text, "a time of up to 10 years");
    return std::optional<int64_t>(std::min(*value * unit_s, kLongestSpanS));
  }
  const auto value = parse_duration(text);
  if (!value) return refuse(text, "a number, D-HH:MM:SS, HH:MM:SS, MM:SS, UNLIMITED");
  return std::optional<int64_t>(value->count());
}

}  // namespace dl::sim
