// SPDX-License-Identifier: Apache-2.0
// Which running jobs may be resized, and what a job is told about its size, once decide_steadily() has chosen one.
// dlpolicyd and dlsim (lend-sizes) call the same functions. Pure.
//
// A job is asked as a victim is, but with itself as the claimant (Yield in job_label.h). What a claim asks of it comes
// first at any time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "slurm-plugin/policy/cluster_state.h"
#include "slurm-plugin/policy/job_label.h"
#include "slurm-plugin/policy/wanted.h"

namespace dl::policy {

// The job was asked to start again at another size.
bool resizes_itself(const std::optional<Yield>& told, int64_t job);

// What a running job is told about its size.
enum class ResizeStep {
  kNothing,   // nothing was asked and nothing is; or a claim asks it, which comes first
  kAsk,       // to save, and to start again with `size`
  kWait,      // it was asked, and saves
  kWithdraw,  // it was asked and is still there after the deadline, or had started anew before it was told
};
struct ResizeOrder {
  ResizeStep step = ResizeStep::kNothing;
  Yield yield;      // with kAsk
  ChosenSize size;  // with kAsk
};
// `told`: what it was asked before. `claimed`: a claim asks it to yield. `learners`: the size that it is to have; 0: as
// it is.
ResizeOrder resize_order(const ClusterState& state, const Job& job, const std::optional<Yield>& told, bool claimed,
                         int learners, const Grace& grace);

// The jobs that did not do what they were asked: they are not asked again for a while. May be lost without harm.
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

// Whether a size may be chosen for the job. One that waits may start at any size. One that runs must hear what it is
// asked, keeps what it was asked before, by whomever, and must not have refused.
bool may_choose_size(const Job& job, bool hears, const std::optional<Yield>& told, bool refused);

}  // namespace dl::policy
