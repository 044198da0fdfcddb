// SPDX-License-Identifier: Apache-2.0
// Chooses the "next borrowers", the waiting jobs that would start first if GPUs came free. A gate is a message to
// slurmctld, and a long queue needs thousands, so gates are set over many rounds. Meanwhile the next borrowers have no
// gate and rank before the jobs behind them: whatever comes free goes to them, so no job starts out of turn. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "slurm-plugin/policy/decide.h"

namespace dl::policy {

// The rank of a next borrower is at most this: behind everybody whose turn it is, and behind all claims.
constexpr int64_t kNextRank = 45'000;
// If fewer gates than this are missing, all are set at once, and there are no next borrowers.
constexpr int kFewGates = 100;
// GPUs that may come free between two looks at the cluster: an eighth of those in use, but no fewer than these, nor
// than the largest job holds. If more do, borrowers without a gate may get what is beyond that.
constexpr int kLeastComingFree = 16;

// What keeps a job waiting whose turn it is not.
enum class Keeper : char {
  kNothing,  // nothing need keep it: it runs, starts, or may not borrow
  kGate,
  kTokens,  // it waits for tokens of its own, may borrow before it gets them, and has no gate
};
// How the scheduler holds a pending job back now.
struct HeldBack {
  bool gated = false;
  int64_t rank = 0;
};

struct NextBorrowers {
  // Indexes of jobs, in the order in which they would start if GPUs came free. A job that ends counts for the share of
  // its tenant from the next look on.
  std::vector<int> jobs;
  std::vector<int64_t> ranks;  // of these
  // By job of the state: wherever it would fit, one of `jobs` fits, until these hold all GPUs that may come free.
  std::vector<char> behind;
};

// `keepers` and `now`: by job. The result is empty if few gates are missing; if no waiting job may start just because
// GPUs come free, since claims wait for GPUs of that type, GPUs are kept for a gang, or tenants keep some of theirs; if
// more than 4,000 jobs would be next, whose ranks would need as many messages as gates; and if the jobs have more than
// 500 sizes, so that this stays quick. Elastic jobs, elements of job arrays, and jobs of tenants that limit their users
// are never next, as Slurm would start them otherwise than the policy.
NextBorrowers next_borrowers(const ClusterState& state, const Decision& decision, const std::vector<Keeper>& keepers,
                             const std::vector<HeldBack>& now);

// Returns falling ranks between `most` and 1 for jobs that have the ranks `now`, so that as many as possible keep
// theirs. Precondition: now.size() <= most.
std::vector<int64_t> falling_ranks(const std::vector<int64_t>& now, int64_t most);

}  // namespace dl::policy
