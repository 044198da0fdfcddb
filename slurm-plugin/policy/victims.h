// SPDX-License-Identifier: Apache-2.0
// The victim search: which running jobs must shrink or stop so that a gang fits, at the least loss.
//
// What a job loses is what it did since its last good checkpoint, plus what a pause costs:
//     lost = (now - last checkpoint or start + restart_s) x its GPUs      in GPU-seconds, at least 1; of a companion 0
// Each of the two times counts up to a limit of the cluster's, since the job itself states them.
// Sets are compared by, in this order: lost work of jobs that stop; lost work of jobs that shrink; GPUs taken from jobs
// that shrink; GPUs of jobs that stop although they are their tenant's own; number of victims; of equals those go that
// started last. So whatever shrinking alone can do is done by shrinking, and every victim of an answer is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "slurm-plugin/policy/free_gpus.h"
#include "slurm-plugin/policy/gangs_room.h"

namespace dl::policy {

struct Victim {
  int job = 0;            // index into the state's jobs
  int learners_left = 0;  // 0: it stops
  int64_t lost_gpu_s = 0;
};

// What a set of victims loses, as sets are compared.
struct Loss {
  int64_t stopped_gpu_s = 0;  // lost by jobs that stop
  int64_t shrunk_gpu_s = 0;   // lost by jobs that shrink
  int shrunk_gpus = 0;        // taken from jobs that shrink
  int own_gpus = 0;           // of jobs that stop: GPUs that are not borrowed, and have to be given up too
  int count = 0;              // victims

  auto key() const { return std::tie(stopped_gpu_s, shrunk_gpu_s, shrunk_gpus, own_gpus, count); }
  bool operator<(const Loss& other) const { return key() < other.key(); }
  Loss operator+(const Loss& other) const {
    return {stopped_gpu_s + other.stopped_gpu_s, shrunk_gpu_s + other.shrunk_gpu_s, shrunk_gpus + other.shrunk_gpus,
            own_gpus + other.own_gpus, count + other.count};
  }
};

struct VictimSet {
  std::vector<Victim> victims;  // by job
  int64_t stopped_gpu_s = 0;    // this and the next three: as in Loss
  int64_t shrunk_gpu_s = 0;
  int shrunk_gpus = 0;
  int own_gpus = 0;
  bool exact = true;  // false: the search was cut short, and a better set may exist

  Loss loss() const { return {stopped_gpu_s, shrunk_gpu_s, shrunk_gpus, own_gpus, static_cast<int>(victims.size())}; }
  int64_t lost_gpu_s() const { return stopped_gpu_s + shrunk_gpu_s; }
};

// Is `a` the lesser loss? Equal by these numbers is not less.
bool less_loss(const VictimSet& a, const VictimSet& b);

// `lost`, as above.
int64_t lost_if_paused(const ClusterState& state, const Job& job);

// The parts that an elastic job keeps when it shrinks: it gives up learners where it has fewest, so that it needs fewer
// nodes and leaves whole ones.
std::vector<Part> parts_after_shrink(const std::vector<Part>& parts, int learners_left);

// What was asked of jobs so far, by job of the state. A job that is to shrink pauses once, however much it gives up: to
// ask it for more costs only the GPUs. A job that is to stop is not asked again.
struct SoFar {
  std::vector<int> left;  // learners that it has, or will have when what was asked is done
  // GPUs that are charged to its tenant's quota. It keeps as many learners as these are enough for, and stops only if
  // those are fewer than its smallest size.
  std::vector<int> own;
};

// Finds the victims among `candidates` (indexes of running jobs) that let `learners` of `gpus_per_learner` fit on the
// nodes of `type` beside what is free. An empty set if they fit already; nothing if even all candidates together are
// not enough. *budget: steps that the exact search may still take, counted down; at 0 a good set is found quickly and
// not improved. With `may_shrink` false every victim stops: "what would have to end". `free`: what is free once the
// jobs that were asked so far have gone.
std::optional<VictimSet> find_victims(const ClusterState& state, const FreeGpus& free, int type, int gpus_per_learner,
                                      int learners, const std::vector<int>& candidates, int* budget,
                                      bool may_shrink = true, const SoFar* so_far = nullptr);

// The same for several gangs that have to fit at once (gangs_room.h). `known`, sorted by job: victims that are enough,
// if there are any already; the answer is no greater a loss. *packing_steps: what packing may cost, counted down.
std::optional<VictimSet> find_joint_victims(const ClusterState& state, const FreeGpus& free, int type,
                                            const std::vector<Need>& needs, const std::vector<int>& candidates,
                                            int* budget, int* packing_steps, const SoFar& so_far,
                                            const std::vector<Victim>& known);

}  // namespace dl::policy
