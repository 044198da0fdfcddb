// SPDX-License-Identifier: Apache-2.0
// Counts how many GPUs of one type the jobs of each share (problem.h) may still get.
#pragma once

#include <vector>

#include "slurm-plugin/policy/elastic/problem.h"

namespace dl::policy::elastic {

class Limits {
 public:
  Limits(const Problem& problem, int type);

  // GPUs that a job of this share may still get: the smallest number that is left of its share and of those above it.
  int left(int share) const;
  // Precondition: gpus <= left(share); a negative number gives back.
  void take(int share, int gpus);
  // GPUs that are left of this share alone, whatever is left of those above it.
  int left_of(int share) const { return left_[share]; }
  int parent(int share) const { return parents_[share]; }
  int shares() const { return static_cast<int>(left_.size()); }

 private:
  std::vector<int> parents_, left_;
};

}  // namespace dl::policy::elastic
