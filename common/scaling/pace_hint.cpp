// SPDX-License-Identifier: Apache-2.0
#include "common/scaling/pace_hint.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "common/base/parse.h"
#include "common/contract/comment_word.h"

namespace dl {
namespace {

constexpr double kMostRate = 1e9, kMostBlockedS = 1e9;

std::optional<double> number_up_to(std::string_view text, double most) {
  double value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  // A value that is no number (nan) is in no range.
  const bool good = bad == std::errc() && end == text.data() + text.size() && value >= 0 && value <= most;
  return good ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string format_pace_hint(const PaceHint& hint) {
  if (hint.step < 0) return "";
  return fmt::format("{}/{:.4g}/{:.1f}@{}", hint.step, std::clamp(hint.steps_per_s, 0.0, kMostRate),
                     std::clamp(hint.blocked_s, 0.0, kMostBlockedS), hint.at_s);
}

PaceHint parse_pace_hint(std::string_view text) {
  const size_t rate = text.find('/');
  const size_t blocked = text.find('/', rate == std::string_view::npos ? rate : rate + 1);
  const size_t at = text.find('@');
  if (blocked == std::string_view::npos || at == std::string_view::npos || at < blocked) return {};
  const auto step = parse_int(text.substr(0, rate), 0, std::numeric_limits<int64_t>::max());
  const auto steps_per_s = number_up_to(text.substr(rate + 1, blocked - rate - 1), kMostRate);
  const auto blocked_s = number_up_to(text.substr(blocked + 1, at - blocked - 1), kMostBlockedS);
  const auto at_s = parse_int(text.substr(at + 1), 1, std::numeric_limits<int64_t>::max());
  if (!step || !steps_per_s || !blocked_s || !at_s) return {};
  return {*step, *steps_per_s, *blocked_s, *at_s};
}

PaceHint pace_hint_in(std::string_view comment) {
  return parse_pace_hint(comment_word(comment, "pace"));
}

}  // namespace dl
