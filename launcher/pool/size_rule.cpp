// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/size_rule.h"

#include <algorithm>

namespace dl::pool {

int median_wish(std::vector<int> wanted, int size) {
  std::sort(wanted.begin(), wanted.end());
  const int high = wanted[wanted.size() / 2];
  const int low = wanted[(wanted.size() - 1) / 2];
  return std::clamp(size, low, high);
}

int next_size(const SizeRule& rule, const std::vector<int>& wanted, int present, SizeMemory* memory) {
  SizeMemory& m = *memory;
  const auto anew = [&] {
    m.above = m.below = 0;
    m.rest = rule.rest;
  };
  if (m.size == 0) m.size = rule.min;
  if (m.present != present) {
    m.present = present;
    anew();
  }
  if (m.rest > 0) {
    --m.rest;
    return m.size;
  }
  if (wanted.empty()) return m.size;
  const int wish = std::clamp(median_wish(wanted, m.size), rule.min, rule.max);
  m.least_above = m.above == 0 ? wish : std::min(m.least_above, wish);
  m.most_below = m.below == 0 ? wish : std::max(m.most_below, wish);
  m.above = wish > m.size ? m.above + 1 : 0;
  m.below = wish < m.size ? m.below + 1 : 0;
  if (m.above >= rule.grow_after) {
    if (m.shrank) m.patience = std::min(2 * m.patience, rule.most_patience);
    m.shrank = false;
    m.size = m.least_above;
    anew();
  } else if (m.below >= rule.shrink_after * m.patience) {
    m.shrank = true;
    m.size = m.most_below;
    anew();
  }
  return m.size;
}

}  // namespace dl::pool
