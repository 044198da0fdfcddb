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
// The next borrowers are enough for the GPUs that may come free between two looks at the cluster. These are taken to be
// an eighth of the GPUs in use, at least this number, and at least as many as the largest job holds. If more come free
// than that, other borrowers without a gate may start on the rest.
constexpr int kLeastComingFree = 16;

// What keeps a job from starting before its turn.
enum class Keeper : char {
  kNothing,  // nothing is needed: it runs, starts now, or may not borrow
  kGate,
  kTokens,  // it waits for tokens of its own, may borrow before it gets them, and has no gate
};
// How the scheduler holds a pending job back now.
struct HeldBack {
  bool gated = false;
  int64_t rank = 0;
};

struct NextBorrowers {
  // Indexes of jobs, in the order in which they would start if GPUs came free. Shares of tenants are those of now: a
  // job that ends changes them at the next look only.
  std::vector<int> jobs;
  std::vector<int64_t> ranks;  // by place in `jobs`
  // By job of the state: its gate can wait. Wherever it has room, one of `jobs` has room, too, and starts first, until
  // all GPUs that may come free are used.
  std::vector<char> behind;
};

// keepers, now: by job. The result is empty
// - if fewer than kFewGates gates are missing;
// - if no waiting job may start just because GPUs come free: claims wait for that type, or GPUs are kept for a gang or
//   by tenants;
// - if more than 4,000 jobs would be next: their ranks would need as many messages as gates;
// - if the jobs have more than 500 different sizes, since this would take too long.
// Elastic jobs, elements of job arrays, and jobs of tenants that limit their users are never next, since Slurm would
// not start them as the policy would.
NextBorrowers next_borrowers(const ClusterState& state, const Decision& decision, const std::vector<Keeper>& keepers,
                             const std::vector<HeldBack>& now);

// Returns falling ranks between `most` and 1 for jobs that have the ranks `now`, so that as many as possible keep
// theirs. Precondition: now.size() <= most.
std::vector<int64_t> falling_ranks(const std::vector<int64_t>& now, int64_t most);

}  // namespace dl::policy
