// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/progress_watch.h"

#include "common/contract/progress_page.h"

namespace dl::agent {

bool ProgressWatch::attached() const {
  return last_.state != ProgressPage::kNotAttached;
}

bool ProgressWatch::wants_cpu() const {
  return !attached() && last_.log_bytes == 0;
}

void ProgressWatch::add(const ProgressSample& sample) {
  bool progress = !any_ || sample.state != last_.state || sample.step != last_.step ||
                  sample.saved_step != last_.saved_step || sample.sending != last_.sending;
  if (any_ && sample.step != last_.step) ++steps_;
  last_ = sample;
  any_ = true;
  if (!attached()) {
    const bool busy = wants_cpu() && sample.cpu_ms - counted_cpu_ms_ >= kBusyMs;
    if (busy) counted_cpu_ms_ = sample.cpu_ms;
    progress = progress || busy || sample.log_bytes != counted_log_;
  }
  counted_log_ = sample.log_bytes;
  if (progress) progress_ms_ = sample.at_ms;
}

bool ProgressWatch::stalled() const {
  if (limit_ms_ <= 0 || !any_) return false;
  // The first step reported is the one that the learner begins with, so only the second change shows a finished train
  // step.
  const bool slow = attached() && (last_.state != ProgressPage::kTraining || steps_ < 2);
  return silent_ms() >= limit_ms_ * (slow ? kSlowFactor : 1);
}

}  // namespace dl::agent
