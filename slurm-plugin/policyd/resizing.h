// SPDX-License-Identifier: Apache-2.0
// Resizes running jobs through the queue, where dl.toml has [elastic] sizes = "optimiser". dlpolicyd writes into the
// job's label what it is asked, with the job itself as the claimant, and the size that was chosen:
//
//     yields=JOB@DEADLINE:LEARNERS size=LEARNERS@QUEUED
//
// and sends SIGUSR2, as to a victim. dlrun saves and puts the job back into the queue. There it is promised what it
// gave up (cluster_view.cpp), keeps its place, and starts with at most so many learners. All is in the label, so a
// restarted dlpolicyd goes on. What a claim asks of the job comes first at any time. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/policy/sizes/steady.h"
#include "slurm-plugin/policy/wanted.h"

namespace dl::policyd {

// The job was asked to start again at another size.
bool resizes_itself(const policy::JobLabel& label, int64_t job);

// What a running job is told about its size.
enum class ResizeStep {
  kNothing,   // nothing was asked and nothing is; or a claim asks it, which comes first
  kAsk,       // to save, and to start again with `size`
  kWait,      // it was asked, and saves
  kWithdraw,  // it was asked and is still there after the deadline, or had started anew before it was told
};
struct ResizeOrder {
  ResizeStep step = ResizeStep::kNothing;
  policy::Yield yield;      // with kAsk
  policy::ChosenSize size;  // with kAsk
};
// `claimed`: a claim asks it to yield. `learners`: the size that it is to have; 0: as it is.
ResizeOrder resize_order(const policy::ClusterState& state, const policy::Job& job, const policy::JobLabel& label,
                         bool claimed, int learners, const policy::Grace& grace);

// "starts again with 4 learners instead of 2: ..."
std::string resize_text(const policy::Job& job, int learners);

// Decides which jobs are resized, and remembers those that must not be asked again for a while. May be lost without
// harm.
class Resizing {
 public:
  static constexpr int64_t kRefusedS = 3600;

  // The decision, and the jobs that are to be resized now. `view`: restart costs in its state are set.
  policy::SteadySizes decide(const observe::Records& records, observe::ClusterView* view, int64_t interval_s);

 private:
  void find_those_that_refused(const observe::ClusterView& view);

  std::map<int64_t, int64_t> refused_;  // by job: it was asked, did not go, and is not asked again until then
};

}  // namespace dl::policyd
