// SPDX-License-Identifier: Apache-2.0
// The policies that dlsim compares: one row each. All of them decide on the same ClusterState, and answer with the same
// kinds of actions, so that one engine carries them out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/policy/job_label.h"
#include "slurm-plugin/policy/sizes/further.h"
#include "slurm-plugin/policy/sizes/sizes.h"
#include "slurm-plugin/sim/world/dice.h"

namespace dl::sim {

// The input of a policy. Without gang scheduling a pending job may have parts: learners that hold GPUs and wait for the
// rest.
struct View {
  policy::ClusterState& state;  // decide() changes charges in it while it decides, and restores them
  // By job of the state: its user's time limit in seconds, for a run with all learners.
  const std::vector<int64_t>& limit_s;
  policy::Tell tell;  // which waiting jobs the decision has to list
  // How fast elastic jobs are at their sizes; only for a policy that resizes. Those of jobs
  // that have companions are apart, in the order of `grown`.
  const std::vector<policy::JobSpeeds>& speeds;
  const std::vector<policy::Grown>& grown;
  const std::vector<policy::JobSpeeds>& grown_speeds;

  int64_t limit_of(int job, int learners) const;  // the limit for a run with this number of learners
};

// One learner that gets a place although its job does not start as a whole (without gang scheduling).
struct Placed {
  int job = 0;  // index into the state's jobs
  int node = 0;
};

// What a policy decides at one moment.
struct Turn {
  policy::Decision decision;
  std::vector<Placed> placed;           // only without gang scheduling; decision.starts is empty then
  std::vector<policy::Resize> resizes;  // of running jobs, through the queue
  std::vector<policy::Growth> growths;  // of running jobs, where they are
};

struct SimPolicy {
  const char* name;
  const char* summary;
  Turn (*take_turn)(const View& view, Dice* dice);
  bool quotas;                                 // jobs are admitted by their tenant's quota and charged to it
  bool never_borrow;                           // every job counts as guaranteed
  bool gang;                                   // a job's learners start together or not at all
  std::optional<policy::Placement> placement;  // placement of every job; absent: as the job asked
  bool resizes = false;                        // running elastic jobs are resized
};

// The table; nullptr for a name that is not in it.
const std::vector<SimPolicy>& sim_policies();
const SimPolicy* find_sim_policy(std::string_view name);
// Reads "lend,backfill" or "all"; the error kInvalid names what is allowed.
Result<std::vector<const SimPolicy*>> parse_sim_policies(std::string_view text);

Turn plan_quotas(const View& view, Dice* dice);        // policy::decide()
Turn plan_as_dlpolicyd(const View& view, Dice* dice);  // the same, without starts that Slurm cannot be given
Turn plan_sizes(const View& view, Dice* dice);         // decide(), and the optimiser for the sizes of elastic jobs
Turn plan_in_place(const View& view, Dice* dice);      // the same, and jobs grow beside the nodes that they have
Turn plan_fifo(const View& view, Dice* dice);          // the oldest job blocks all others
Turn plan_backfill(const View& view, Dice* dice);      // EASY: others may pass the oldest job if they do not delay it
Turn plan_learners(const View& view, Dice* dice);      // learner by learner, those of the oldest job first
Turn plan_learners_shuffled(const View& view, Dice* dice);  // learner by learner, in random order

// What a job was asked to give up, as its label says on a cluster (its deadline is not known here). Nothing: nobody has
// asked it.
std::optional<policy::Yield> told_of(const policy::Job& job);

// Functions that the policies without quotas share.

// Indexes of the pending jobs, oldest first.
std::vector<int> queue_of(const policy::ClusterState& state);
// A start of the job on free GPUs of the first type that has room, with as many learners as fit; none if these are
// fewer than its minimum.
std::optional<policy::Start> place_job(const policy::ClusterState& state, const policy::FreeGpus& free, int index);

}  // namespace dl::sim
