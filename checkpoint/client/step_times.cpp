// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/step_times.h"

#include <algorithm>
#include <vector>

#include "checkpoint/levels/save_history.h"

namespace dl::ckpt {

void StepTimes::begin(double now_s, int64_t step, bool saving) {
  running_ = true;
  beside_ = saving;
  start_s_ = now_s;
  start_step_ = step;
}

void StepTimes::end(double now_s, int64_t step) {
  if (!running_) return;
  running_ = false;
  const int64_t steps = step - start_step_;
  const double took = now_s - start_s_;
  if (steps <= 0 || took < 0) return;
  if (beside_) {
    beside_s_ += took;
    beside_steps_ += steps;
    return;
  }
  alone_.push_back(took / static_cast<double>(steps));
  if (alone_.size() > kRemembered) alone_.pop_front();
}

std::optional<double> StepTimes::take_slowdown() {
  const double took = beside_s_;
  const int64_t steps = beside_steps_;
  beside_s_ = 0;
  beside_steps_ = 0;
  if (steps == 0) return 0.0;
  if (alone_.size() < kLeast) return std::nullopt;
  return std::max(0.0, took - static_cast<double>(steps) * median_of({alone_.begin(), alone_.end()}));
}

}  // namespace dl::ckpt
