// SPDX-License-Identifier: Apache-2.0
// Resizes running jobs through the queue, where dl.toml has [elastic] sizes = "optimiser". dlpolicyd writes into the
// job's label what it is asked, with the job itself as the claimant, and the size that was chosen:
//
//     yields=JOB@DEADLINE:LEARNERS size=LEARNERS@QUEUED
//
// and sends SIGUSR2, as to a victim. dlrun saves and puts the job back into the queue. There it is promised what it
// gave up (cluster_view.cpp), keeps its place, and starts with at most this number of learners. All of this is in the
// label, so a restarted dlpolicyd can go on. policy/sizes decides which jobs are asked, and for what. Pure.
//
// With [elastic] grow = "in-place", a job that grows onto whole free nodes is offered these instead, and goes on where
// it is: grow=NODES@OFFERED in its label, and the same signal. dlrun then submits a companion.
#pragma once

#include <optional>
#include <string>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/policy/sizes/further.h"
#include "slurm-plugin/policy/sizes/in_place.h"
#include "slurm-plugin/policy/sizes/resize_order.h"
#include "slurm-plugin/policy/sizes/steady.h"

namespace dl::policyd {

// "starts again with 4 learners instead of 2: ..."
// wanted: the number of learners for which its own ones vote.
std::string resize_text(const policy::Job& job, int learners, std::optional<int> wanted);

// "may grow from 2 to 4 learners: nodes n3 and n4 are free"
std::string growth_text(const policy::ClusterState& state, const policy::Growth& growth);

// What is to be done about sizes now.
struct NewSizes {
  policy::Decision decision;
  std::vector<policy::Resize> resizes;  // through the queue
  std::vector<policy::Growth> growths;  // in place
};

// Decides which jobs are resized, and remembers those that must not be asked again for a while. It does no harm if this
// is lost.
class Resizing {
 public:
  // Returns the decision, and the jobs that are to be resized now. Also sets the costs of restarts in view->state.
  // in_place: jobs may grow where they are.
  NewSizes decide(const observe::Records& records, observe::ClusterView* view, int64_t interval_s,
                  bool in_place = false);

 private:
  // Of jobs that have companions already; `decision` starts nobody and asks nobody to yield.
  std::vector<policy::Growth> further(const observe::Records& records, const observe::ClusterView& view,
                                      const std::vector<policy::MayGrow>& may, const policy::SizeOptions& options,
                                      const policy::Decision& decision) const;
  // A job rests as long after it has grown or lost a companion as after a start.
  bool rests(const observe::ClusterView& view, int job, const policy::SizeOptions& options) const;

  policy::ResizeRefusals refusals_;
  policy::GrowthMemory growths_;
};

}  // namespace dl::policyd
