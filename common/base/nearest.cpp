// SPDX-License-Identifier: Apache-2.0
#include "common/base/nearest.h"

#include <algorithm>

namespace dl {
namespace {

constexpr size_t kLongest = 64;      // a longer word is not a typing mistake
constexpr size_t kShortestPart = 3;  // a shorter word is close to too many others

// The optimal string alignment distance: how many letters have to be changed, left out, put in, or swapped with the
// next one to turn `a` into `b`.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] =
          std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() < kShortestPart || word.size() > kLongest) return {};
  std::string best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& one : known) {
    if (one.size() > kLongest) continue;
    const size_t found = distance(word, one);
    if (found < least) {
      least = found;
      best = one;
    }
  }
  if (!best.empty()) return best;
  int holding = 0;
  for (const std::string& one : known) {
    const bool holds = one.find(word) != std::string::npos ||
                       (one.size() >= kShortestPart && word.find(one) != std::string_view::npos);
    if (!holds) continue;
    ++holding;
    best = one;
  }
  return holding == 1 ? best : std::string();
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string meant = nearest(word, known);
  return meant.empty() ? meant : "; did you mean '" + meant + "'?";
}

}  // namespace dl
