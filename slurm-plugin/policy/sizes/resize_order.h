// SPDX-License-Identifier: Apache-2.0
// Decides which running jobs may be resized, and, once decide_steadily() has chosen a size for a job, what the job is
// told. dlpolicyd and dlsim (policy lend-sizes) call the same functions. Pure.
//
// A job is asked in the same way as a victim, but with itself as the claimant (Yield in job_label.h). If a claim asks
// it to yield, that comes first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "slurm-plugin/policy/cluster_state.h"
#include "slurm-plugin/policy/job_label.h"
#include "slurm-plugin/policy/wanted.h"

namespace dl::policy {

// Whether what the job was told is to start again at another size: the claimant is the job itself.
bool resizes_itself(const std::optional<Yield>& told, int64_t job);

// What a running job is told about its size.
enum class ResizeStep {
  kNothing,   // nothing: it keeps its size, or a claim asks it, which comes first
  kAsk,       // it is asked to save, and to start again with `size`
  kWait,      // it was asked before, and is saving
  kWithdraw,  // it need not do what it was asked: the deadline has passed, or it had started anew before it was told
};
struct ResizeOrder {
  ResizeStep step = ResizeStep::kNothing;
  Yield yield;      // with kAsk
  ChosenSize size;  // with kAsk
};
// told: what it was asked before. claimed: a claim asks it to yield. learners: the size that it is to have; 0: its
// present size.
ResizeOrder resize_order(const ClusterState& state, const Job& job, const std::optional<Yield>& told, bool claimed,
                         int learners, const Grace& grace);

// Remembers jobs that did not do what they were asked; they are not asked again for kRefusedS seconds. It does no harm
// if this is lost.
class ResizeRefusals {
 public:
  static constexpr int64_t kRefusedS = 3600;

  // To be called in each round for each running job that was told something.
  void look(const Job& job, const Yield& told, int64_t now_s);
  bool refused(int64_t job, int64_t now_s) const;
  // Forgets those whose time is over.
  void tidy(int64_t now_s);

 private:
  std::map<int64_t, int64_t> until_;  // by job
};

// Whether another size may be chosen for the job. For a job that waits: always. For a job that runs: if a dlrun in it
// hears what it is asked (`hears`), nobody has asked it for anything yet, and it has not refused before.
bool may_choose_size(const Job& job, bool hears, const std::optional<Yield>& told, bool refused);

}  // namespace dl::policy
