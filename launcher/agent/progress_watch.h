// SPDX-License-Identifier: Apache-2.0
// Decides whether a learner makes progress, from samples that the agent takes about each second. Pure.
//
// What counts as progress: if the learner uses the checkpoint library, its train steps, saves, and what its end sends
// to an object store; if not, output to its log; if it has never written anything, the CPU time of its processes. With
// the library, the first train step, what comes before it (data, compilers) and saves may take kSlowFactor times as
// long.
#pragma once

#include <cstdint>

namespace dl::agent {

struct ProgressSample {
  int64_t at_ms = 0;   // awake_ms(), so that time in suspension does not count
  uint32_t state = 0;  // ProgressPage::State
  int64_t step = -1;   // as on the progress page
  int64_t saved_step = -1;
  uint64_t sending = 0;    // likewise
  uint64_t log_bytes = 0;  // written so far
  int64_t cpu_ms = 0;      // of all its processes so far; needed only as long as wants_cpu()
};

class ProgressWatch {
 public:
  static constexpr int64_t kSlowFactor = 10;
  static constexpr int64_t kBusyMs = 20;  // this much more CPU time counts as progress

  explicit ProgressWatch(int64_t limit_ms = 0) : limit_ms_(limit_ms) {}

  void add(const ProgressSample& sample);
  bool wants_cpu() const;
  // How long there had been no progress when the last sample was taken.
  int64_t silent_ms() const { return last_.at_ms - progress_ms_; }
  // True if there was no progress for the time allowed; never if the limit is 0.
  bool stalled() const;

 private:
  bool attached() const;

  int64_t limit_ms_;
  bool any_ = false;
  int steps_ = 0;  // changes of the train step
  ProgressSample last_;
  uint64_t counted_log_ = 0;
  int64_t progress_ms_ = 0, counted_cpu_ms_ = 0;
};

}  // namespace dl::agent
