// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/log_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string_view>

#include "common/base/parse.h"

namespace dl::ctl {
namespace {

constexpr int kMostRank = 999'999;
constexpr int64_t kDayS = 86'400;

// The seconds since the epoch, if the whole text has this form. `base`: what the form does not say.
std::optional<int64_t> read_time(const std::string& text, const char* form, struct tm base, bool utc) {
  base.tm_isdst = -1;
  const char* end = ::strptime(text.c_str(), form, &base);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const time_t time = utc ? ::timegm(&base) : ::mktime(&base);
  if (time < 0) return std::nullopt;
  return static_cast<int64_t>(time);
}

}  // namespace

Result<Ranks> Ranks::parse(const std::string& text) {
  const Error bad{Errc::kInvalid,
                  fmt::format("'{}' is not a list of ranks; allowed: ranks from 0 to {} and ranges, such as 3 or 0-3,8",
                              printable(text), kMostRank)};
  const auto ranges = parse_ranges(text, kMostRank);
  if (!ranges || ranges->empty()) return bad;
  Ranks ranks;
  for (const auto& [first, last] : *ranges) ranks.ranges_.emplace_back(static_cast<int>(first), static_cast<int>(last));
  return ranks;
}

bool Ranks::has(int rank) const {
  return all() || std::any_of(ranges_.begin(), ranges_.end(),
                              [rank](const auto& range) { return range.first <= rank && rank <= range.second; });
}

std::optional<int> Ranks::single() const {
  if (ranges_.size() != 1 || ranges_[0].first != ranges_[0].second) return std::nullopt;
  return ranges_[0].first;
}

Result<int64_t> parse_moment(const std::string& text, int64_t now_ms) {
  constexpr int64_t kMostSeconds = 100'000'000'000;
  if (!text.empty() && text[0] == '@') {
    if (const auto seconds = parse_int(text.substr(1), 0, kMostSeconds)) return *seconds * 1000;
  }
  const time_t now_s = static_cast<time_t>(now_ms / 1000);
  struct tm today = {};
  ::localtime_r(&now_s, &today);
  today.tm_sec = 0;
  for (const char* form : {"%H:%M:%S", "%H:%M"}) {
    const auto time = read_time(text, form, today, false);
    if (!time) continue;
    if (*time <= now_s) return *time * 1000;
    // The same time of the day before, which is not always 24 hours ago.
    const time_t yesterday = now_s - kDayS;
    ::localtime_r(&yesterday, &today);
    today.tm_sec = 0;
    if (const auto before = read_time(text, form, today, false)) return *before * 1000;
  }
  const bool utc = !text.empty() && text.back() == 'Z';
  std::string date = utc ? text.substr(0, text.size() - 1) : text;
  if (date.size() > 10 && date[10] == 'T') date[10] = ' ';
  for (const char* form : {"%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"})
    if (const auto time = read_time(date, form, {}, utc)) return *time * 1000;
  // Durations with a colon are refused: whoever reads "25:00" takes it for a time of the day.
  if (const auto ago = parse_duration(text); ago && text.find(':') == std::string::npos)
    return now_ms - ago->count() * 1000;
  return Error{
      Errc::kInvalid,
      fmt::format("'{}' is not a time; allowed: how long ago (10m, 2h), 14:05, 2026-11-25 14:05:09, or @ and the "
                  "seconds since 1970",
                  printable(text))};
}

std::vector<int> attempts_between(const std::vector<int>& attempts, const std::map<int, int64_t>& begins,
                                  std::optional<int64_t> since_ms, std::optional<int64_t> until_ms) {
  std::vector<int> chosen;
  for (size_t i = 0; i < attempts.size(); ++i) {
    const auto begin = begins.find(attempts[i]);
    if (until_ms && begin != begins.end() && begin->second >= *until_ms) continue;
    const auto next = i + 1 < attempts.size() ? begins.find(attempts[i + 1]) : begins.end();
    if (since_ms && next != begins.end() && next->second < *since_ms) continue;
    chosen.push_back(attempts[i]);
  }
  return chosen;
}

}  // namespace dl::ctl
