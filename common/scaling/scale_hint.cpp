// SPDX-License-Identifier: Apache-2.0
#include "common/scaling/scale_hint.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "common/base/parse.h"
#include "common/contract/comment_word.h"

namespace dl {
namespace {

constexpr int kMostLearners = 1'000'000;
constexpr double kMostMs = 1e9, kMostNoise = 1e9;
constexpr int64_t kMostRestartS = 1'000'000;

std::optional<double> number(std::string_view text, double least, double most) {
  double value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value >= least && value <= most ? std::optional<double>(value) : std::nullopt;
}

std::optional<ScaleHint::Size> size_of(std::string_view text) {
  const size_t slash = text.find('/');
  const size_t colon = text.find(':');
  if (slash == std::string_view::npos || colon == std::string_view::npos || colon < slash) return std::nullopt;
  const auto learners = parse_int(text.substr(0, slash), 1, kMostLearners);
  if (!learners) return std::nullopt;
  const auto nodes = parse_int(text.substr(slash + 1, colon - slash - 1), 1, *learners);
  const auto ms = number(text.substr(colon + 1), 1e-3, kMostMs);
  if (!nodes || !ms) return std::nullopt;
  return ScaleHint::Size{static_cast<int>(*learners), static_cast<int>(*nodes), *ms / 1000};
}

}  // namespace

std::string format_scale_hint(const ScaleHint& hint, int now) {
  if (hint.sizes.empty()) return "";
  std::vector<ScaleHint::Size> sizes = hint.sizes;
  std::stable_sort(sizes.begin(), sizes.end(), [now](const ScaleHint::Size& a, const ScaleHint::Size& b) {
    return std::abs(a.learners - now) < std::abs(b.learners - now);
  });
  sizes.resize(std::min(sizes.size(), kMostScaleSizes));
  std::sort(sizes.begin(), sizes.end(), [](const ScaleHint::Size& a, const ScaleHint::Size& b) {
    return a.learners != b.learners ? a.learners < b.learners : a.nodes < b.nodes;
  });
  const std::string restart = hint.restart_s < 0 ? "" : std::to_string(std::min(hint.restart_s, kMostRestartS));
  const std::string noise = hint.noise < 0 ? "" : fmt::format("{:.4g}", std::min(hint.noise, kMostNoise));
  std::string text = restart + ":" + noise + ";";
  for (size_t i = 0; i < sizes.size(); ++i)
    text += fmt::format("{}{}/{}:{:.4g}", i > 0 ? "," : "", sizes[i].learners, sizes[i].nodes, sizes[i].step_s * 1000);
  return text;
}

ScaleHint parse_scale_hint(std::string_view text) {
  const size_t semicolon = text.find(';');
  const size_t colon = text.find(':');
  if (semicolon == std::string_view::npos || colon > semicolon) return {};
  ScaleHint hint;
  if (colon > 0) {
    const auto restart = parse_int(text.substr(0, colon), 0, kMostRestartS);
    if (!restart) return {};
    hint.restart_s = *restart;
  }
  if (colon + 1 < semicolon) {
    const auto noise = number(text.substr(colon + 1, semicolon - colon - 1), 0, kMostNoise);
    if (!noise) return {};
    hint.noise = *noise;
  }
  for (const std::string& item : split(text.substr(semicolon + 1), ',')) {
    const auto size = size_of(item);
    if (!size || hint.sizes.size() == kMostScaleSizes) return {};
    hint.sizes.push_back(*size);
  }
  return hint;
}

ScaleHint scale_hint_in(std::string_view comment) {
  return parse_scale_hint(comment_word(comment, "scale"));
}

}  // namespace dl
