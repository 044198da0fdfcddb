// SPDX-License-Identifier: Apache-2.0
// The policies that dlsim compares: one row each. All of them decide on the same ClusterState, and answer with the same
// kinds of actions, so that one engine carries them out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/sim/dice.h"

namespace dl::sim {

// What a policy sees. Without gang scheduling a pending job may have parts: learners that hold GPUs and wait for the
// rest.
struct View {
  policy::ClusterState& state;  // decide() charges it anew while it decides, and then as before
  // By job of the state: its time limit in seconds, if it ran with all its learners, as its user stated it.
  const std::vector<int64_t>& limit_s;
  policy::Tell tell;  // of those that wait

  int64_t limit_of(int job, int learners) const;  // the same if it runs with so many learners
};

// One learner that gets a place while its job does not start as a whole (without gang scheduling).
struct Placed {
  int job = 0;  // index into the state's jobs
  int node = 0;
};

// What a policy decides at one moment.
struct Turn {
  policy::Decision decision;
  std::vector<Placed> placed;  // only without gang scheduling, and then instead of decision.starts
};

struct SimPolicy {
  const char* name;
  const char* summary;
  Turn (*take_turn)(const View& view, Dice* dice);
  bool quotas;                                 // jobs are admitted by their tenant's quota, and charged
  bool never_borrow;                           // every job counts as guaranteed
  bool gang;                                   // a job's learners start together or not at all
  std::optional<policy::Placement> placement;  // of every job, whatever it asked for; absent: as it asked
};

// The table; nullptr for a name that is not in it.
const std::vector<SimPolicy>& sim_policies();
const SimPolicy* find_sim_policy(std::string_view name);
// "lend,backfill" or "all"; kInvalid names what is allowed.
Result<std::vector<const SimPolicy*>> parse_sim_policies(std::string_view text);

Turn plan_quotas(const View& view, Dice* dice);             // policy::decide()
Turn plan_as_dlpolicyd(const View& view, Dice* dice);       // the same, without starts that Slurm cannot be given
Turn plan_fifo(const View& view, Dice* dice);               // the oldest job blocks all others
Turn plan_backfill(const View& view, Dice* dice);           // EASY: others may pass the oldest, without delaying it
Turn plan_learners(const View& view, Dice* dice);           // learner by learner, those of the oldest job first
Turn plan_learners_shuffled(const View& view, Dice* dice);  // learner by learner, in random order

// Shared by the policies without quotas.

// Indexes of the pending jobs, oldest first.
std::vector<int> queue_of(const policy::ClusterState& state);
// A start of the job on free GPUs of the first type that has room, with as many learners as fit; nothing if fewer than
// its minimum do.
std::optional<policy::Start> place_job(const policy::ClusterState& state, const policy::FreeGpus& free, int index);

}  // namespace dl::sim
