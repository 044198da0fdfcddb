// SPDX-License-Identifier: Apache-2.0
// Translates a decision for a scheduler that starts jobs by itself (Slurm): it chooses the nodes, starts the first job
// in its queue for which GPUs and licences are free, and cannot be given a decision as a whole. So a decision becomes,
// for each job: what it is charged as, its rank in the queue, and whether it may start at all. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl::policy {

// Ranks: any claim before any borrower, and borrowers in the order of the decision. As in the decision, claims come
// first for which jobs were asked to yield, and guaranteed jobs before other claims: those of their own tenant would
// take the quota that others left for them.
constexpr int64_t kPromisedRank = 300'000;
constexpr int64_t kGuaranteedRank = 250'000;
constexpr int64_t kClaimRank = 200'000;
constexpr int64_t kBorrowRank = 100'000;  // of the first borrower; the next one's is 1 less
// Once one element of a job array could not start, Slurm tries no others in the same round of its scheduler
// (reject_array_job in slurmctld's job_scheduler.c). So elements that wait for own tokens rank behind those whose turn
// it is to borrow.
constexpr int64_t kSiblingRank = 50'000;

// The first kNearGates gates last kGateS, so that Slurm goes on soon when dlpolicyd stops and nobody renews them. The
// others last far_gate_s(all gates): longer the more there are, since each of the two renewals in that time is a
// message.
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
  bool turn = false;   // it may start now: not so a borrower while GPUs of its type are being made free for a claim
  bool open = true;    // false: it is kept from starting by a gate
  int64_t gate_s = 0;  // how long the gate lasts, if nobody renews it; 0: it is open
  std::optional<int64_t> rank;    // nothing: it is behind a gate, so that its rank does not matter
  bool unranked_will_do = false;  // a rank of 0 is as good as `rank`: it cannot start before the next decision
  bool waits_for_victims = false;
  bool loan = false;  // it waits for victims, and will be charged as borrowed
  // An elastic job that waits for victims beside other claims may have only its smallest size: Slurm starts it as soon
  // as its victims have gone, before the next decision, and it would take what is made free for the others.
  bool smallest = false;
};

// One for each job of the state. `decision` is decide(state).
std::vector<Wanted> wanted(const ClusterState& state, const Decision& decision);

int gpus_of(const ClusterState& state, const Start& start);

// What to tell a running job.
enum class YieldStep {
  kNothing,
  kAsk,       // to save and yield
  kAskMore,   // to yield more; it is saving already, so that only the size changes with which it comes back
  kWithdraw,  // that it need not yield any more
  kRequeue,   // nothing: it did not yield in time, and Slurm is to requeue it
};
struct YieldOrder {
  YieldStep step = YieldStep::kNothing;
  std::optional<Yield> yield;  // what it is asked from now on
};
// `told`: what it was asked before, by its label; it still counts if Job::yields_to says so. `asked`: what the decision
// asks of it. `grace_s`: from asking to the deadline.
YieldOrder yield_order(const ClusterState& state, const Job& job, const std::optional<Yield>& told,
                       const std::optional<Asked>& asked, int64_t grace_s);

}  // namespace dl::policy
