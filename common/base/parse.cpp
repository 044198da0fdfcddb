// SPDX-License-Identifier: Apache-2.0
#include "common/base/parse.h"

#include <fmt/core.h>

#include <array>

namespace dl {
namespace {

constexpr int64_t kMaxDurationSeconds = 10LL * 365 * 86400;

Error bad_duration(std::string_view text) {
  return Error{Errc::kInvalid, fmt::format("'{}' is not a time; allowed: seconds, 30s, 10m, 2h, 1d, 1h30m, MM:SS, "
                                           "HH:MM:SS or D-HH:MM:SS, at most 10 years",
                                           printable(text))};
}

bool all_digits(std::string_view text) {
  if (text.empty() || text.size() > 18) return false;
  for (char c : text)
    if (c < '0' || c > '9') return false;
  return true;
}

int64_t to_int(std::string_view digits) {
  int64_t value = 0;
  for (char c : digits) value = value * 10 + (c - '0');
  return value;
}

Result<std::chrono::seconds> parse_colon_form(std::string_view text) {
  std::string_view rest = text;
  int64_t days = 0;
  if (size_t dash = rest.find('-'); dash != std::string_view::npos) {
    if (!all_digits(rest.substr(0, dash)) || dash > 5) return bad_duration(text);
    days = to_int(rest.substr(0, dash));
    rest.remove_prefix(dash + 1);
  }
  std::vector<std::string> fields = split(rest, ':');
  if (fields.size() < 2 || fields.size() > 3) return bad_duration(text);
  int64_t seconds = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!all_digits(fields[i]) || fields[i].size() > 9 || (i > 0 && to_int(fields[i]) > 59)) return bad_duration(text);
    seconds = seconds * 60 + to_int(fields[i]);
  }
  seconds += days * 86400;
  if (seconds > kMaxDurationSeconds) return bad_duration(text);
  return std::chrono::seconds(seconds);
}

}  // namespace

Result<int64_t> parse_int(std::string_view text, int64_t min, int64_t max) {
  if (all_digits(text)) {
    int64_t value = to_int(text);
    if (value >= min && value <= max) return value;
  }
  return Error{Errc::kInvalid, fmt::format("'{}' is not a whole number from {} to {}", printable(text), min, max)};
}

Result<std::vector<std::pair<int64_t, int64_t>>> parse_ranges(std::string_view text, int64_t most) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-');
    DL_TRY_ASSIGN(const int64_t first, parse_int(part.substr(0, dash), 0, most));
    int64_t last = first;
    if (dash != std::string::npos) {
      DL_TRY_ASSIGN(last, parse_int(part.substr(dash + 1), first, most));
    }
    ranges.emplace_back(first, last);
  }
  return ranges;
}

Result<std::chrono::seconds> parse_duration(std::string_view text) {
  if (text.find(':') != std::string_view::npos) return parse_colon_form(text);
  if (all_digits(text)) {
    if (to_int(text) > kMaxDurationSeconds) return bad_duration(text);
    return std::chrono::seconds(to_int(text));
  }
  int64_t total = 0;
  int64_t previous_unit = INT64_MAX;
  std::string_view rest = text;
  if (rest.empty()) return bad_duration(text);
  while (!rest.empty()) {
    size_t n = 0;
    while (n < rest.size() && rest[n] >= '0' && rest[n] <= '9') ++n;
    if (n == 0 || n > 9 || n == rest.size()) return bad_duration(text);
    int64_t unit = 0;
    switch (rest[n]) {
      case 's':
        unit = 1;
        break;
      case 'm':
        unit = 60;
        break;
      case 'h':
        unit = 3600;
        break;
      case 'd':
        unit = 86400;
        break;
      default:
        return bad_duration(text);
    }
    if (unit >= previous_unit) return bad_duration(text);
    previous_unit = unit;
    total += to_int(rest.substr(0, n)) * unit;
    if (total > kMaxDurationSeconds) return bad_duration(text);
    rest.remove_prefix(n + 1);
  }
  return std::chrono::seconds(total);
}

std::string format_duration(std::chrono::seconds value) {
  int64_t s = value.count();
  if (s <= 0) return "0s";
  std::string out;
  constexpr std::array<std::pair<int64_t, char>, 4> kUnits{{{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}}};
  for (auto [unit, letter] : kUnits) {
    if (s >= unit) out += fmt::format("{}{}", s / unit, letter);
    s %= unit;
  }
  return out;
}

Result<uint64_t> parse_bytes(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && text[n] >= '0' && text[n] <= '9') ++n;
  std::string_view unit = text.substr(n);
  int shift = -1;
  if (unit.empty() || unit == "B") shift = 0;
  constexpr std::array<std::pair<char, int>, 4> kUnits{{{'K', 10}, {'M', 20}, {'G', 30}, {'T', 40}}};
  for (auto [letter, bits] : kUnits) {
    const std::string one(1, letter);
    if (unit == one || unit == one + "iB") shift = bits;
  }
  if (n == 0 || n > 15 || shift < 0 || to_int(text.substr(0, n)) > (INT64_MAX >> shift))
    return Error{
        Errc::kInvalid,
        fmt::format("'{}' is not a size; allowed: bytes, or a number with KiB, MiB, GiB or TiB", printable(text))};
  return static_cast<uint64_t>(to_int(text.substr(0, n))) << shift;
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kUnits[unit]);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  if (text.empty()) return out;
  size_t start = 0;
  for (;;) {
    size_t end = text.find(separator, start);
    if (end == std::string_view::npos) {
      out.emplace_back(text.substr(start));
      return out;
    }
    out.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
}

std::string join(const std::vector<std::string>& texts, std::string_view separator) {
  std::string all;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) all.append(separator);
    all.append(texts[i]);
  }
  return all;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool is_plain_name(std::string_view text, size_t max_length) {
  if (text.empty() || text.size() > max_length) return false;
  auto alnum = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (!alnum(text.front())) return false;
  for (char c : text)
    if (!alnum(c) && c != '.' && c != '_' && c != '+' && c != '-') return false;
  return true;
}

}  // namespace dl
