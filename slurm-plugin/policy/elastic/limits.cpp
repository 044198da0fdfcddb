// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/elastic/limits.h"

#include <algorithm>

namespace dl::policy::elastic {

Limits::Limits(const Problem& problem, int type) {
  for (const Share& share : problem.shares) {
    parents_.push_back(share.parent);
    left_.push_back(share.gpus[type]);
  }
}

int Limits::left(int share) const {
  int least = left_[share];
  for (int at = parents_[share]; at != kNothing; at = parents_[at]) least = std::min(least, left_[at]);
  return least;
}

void Limits::take(int share, int gpus) {
  for (int at = share; at != kNothing; at = parents_[at]) left_[at] -= gpus;
}

}  // namespace dl::policy::elastic
