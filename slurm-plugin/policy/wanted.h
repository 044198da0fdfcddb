// SPDX-License-Identifier: Apache-2.0
// What each job should be, for a scheduler of somebody else's (Slurm) that starts jobs by itself: it chooses the nodes,
// starts whoever is in front as soon as GPUs and licences are there, and cannot be given a decision as a whole. So a
// decision becomes, job by job: what it is charged as, its rank in the queue, and whether it may start at all. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl::policy {

// Ranks: any claim before any borrower, and borrowers in the order of the decision. As in the decision, those come
// first for which jobs were asked to yield; and a guaranteed job before those of its own tenant that may borrow: they
// would take the quota that others left for it.
constexpr int64_t kPromisedRank = 300'000;
constexpr int64_t kGuaranteedRank = 250'000;
constexpr int64_t kClaimRank = 200'000;
constexpr int64_t kBorrowRank = 100'000;  // of the first borrower; the next one's is 1 less
// Slurm tries no more elements of a job array in a round of its scheduler once one of them could not start
// (reject_array_job in slurmctld's job_scheduler.c): those that wait for own tokens come behind their siblings whose
// turn it is to borrow.
constexpr int64_t kSiblingRank = 50'000;

// The first kNearGates gates last kGateS, so that Slurm goes on soon when nobody renews them any more. Those behind
// them last longer the more there are: each is renewed twice in that time, and each renewal is a message to slurmctld.
constexpr int kNearGates = 100;
constexpr int64_t kGateS = 60;
constexpr int64_t kLongestGateS = 900;
int64_t far_gate_s(int64_t gates);

// A running job is to give GPUs up.
struct Asked {
  int64_t claimant = 0;  // id of the first claim that it gives way to
  int learners_left = 0;
  int64_t lost_gpu_s = 0;
};

struct Wanted {
  Charge charge = Charge::kOwn;
  int own_part = 0;            // of a borrowed job, as Job::own_part
  std::optional<Asked> asked;  // of a running job

  // Of a pending job.
  int start = -1;      // index into the decision's starts; -1: it is not among them
  bool turn = false;   // it may start now. Not every start may: while a claim's GPUs are being made free, none borrows
  bool open = true;    // false: it is kept from starting by a gate
  int64_t gate_s = 0;  // how long the gate lasts, if nobody renews it; 0: it is open
  std::optional<int64_t> rank;    // nothing: it is behind a gate, and any will do
  bool unranked_will_do = false;  // a rank of 0 is as good as `rank`: it cannot start before the next decision
  bool waits_for_victims = false;
  bool loan = false;  // and will be charged as borrowed then
  // Slurm starts a claim that waits as soon as its victims have gone, before its size is decided on anew. Beside other
  // claims it starts at its smallest then, and takes nothing that is made free for them.
  bool smallest = false;
};

// One for each job of the state. `decision` is decide(state).
std::vector<Wanted> wanted(const ClusterState& state, const Decision& decision);

int gpus_of(const ClusterState& state, const Start& start);

// What to say to a running job.
enum class YieldStep {
  kNothing,
  kAsk,       // to save and give way
  kAskMore,   // it is saving: what it gives up besides changes only the size that it comes back with
  kWithdraw,  // it need not any more
  kRequeue,   // it did not go in time
};
struct YieldOrder {
  YieldStep step = YieldStep::kNothing;
  std::optional<Yield> yield;  // what it is asked from now on
};
// `told`: what it was asked before, by its label; `grace_s`: from asking to the deadline. Job::yields_to says whether
// that still counts.
YieldOrder yield_order(const ClusterState& state, const Job& job, const std::optional<Yield>& told,
                       const std::optional<Asked>& asked, int64_t grace_s);

}  // namespace dl::policy
