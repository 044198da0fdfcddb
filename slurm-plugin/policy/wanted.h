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
#include "slurm-plugin/policy/next_borrowers.h"

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
constexpr int64_t kLongestGateS = 1800;
int64_t far_gate_s(int64_t gates);

// A running job is to give GPUs up.
struct YieldRequest {
  int64_t claimant = 0;  // id of the first claim that it gives way to
  int learners_left = 0;
  int64_t lost_gpu_s = 0;
};

struct Wanted {
  Charge charge = Charge::kOwn;
  int own_part = 0;                   // of a borrowed job, as Job::own_part
  std::optional<YieldRequest> asked;  // of a running job

  // Of a pending job.
  int start = -1;      // index into the decision's starts; -1: it is not among them
  bool turn = false;   // it may start now: not so a borrower while GPUs of its type are being made free for a claim
  bool open = true;    // false: it is kept from starting by a gate
  int64_t gate_s = 0;  // how long the gate lasts, if nobody renews it; 0: it is open
  bool next = false;   // not its turn, but open: GPUs that come free before the next look are for it (next_borrowers.h)
  bool gate_can_wait = false;     // it cannot start as long as the next borrowers have no gate
  std::optional<int64_t> rank;    // nothing: it is behind a gate, so that its rank does not matter
  bool unranked_will_do = false;  // a rank of 0 is as good as `rank`: it cannot start before the next decision
  bool waits_for_victims = false;
  bool loan = false;  // it waits for victims, and will be charged as borrowed
  // An elastic job that waits for victims beside other claims may have only its smallest size: Slurm starts it as soon
  // as its victims have gone, before the next decision, and it would take what is made free for the others.
  bool smallest = false;
};

// One for each job of the state. `decision` is decide(state). `now`, by job: how the scheduler holds it back already;
// empty: no gate can wait, as if all were set at once.
std::vector<Wanted> wanted(const ClusterState& state, const Decision& decision, const std::vector<HeldBack>& now = {});

// Whether the running job `a` gets its tokens before `b`. First come those that give tokens back, because Slurm counts
// tokens at each message; then those charged as own; last those that are own in part, which get what is left. Of
// equals the older one comes first, so that the tokens of a job depend only on older ones.
bool holds_before(const Job& a, const Wanted& a_wants, const Job& b, const Wanted& b_wants);
// The most learners for which a pending job holds tokens while it waits (Wanted::smallest).
int most_learners(const Job& job, const Wanted& wanted);

// The GPUs that a job gets by this start.
int gpus_of(const ClusterState& state, const Start& start);

// What to tell a running job.
enum class YieldStep {
  kNothing,
  kAsk,       // to save and yield
  kAskMore,   // to yield more; it is saving already, so that only the size changes with which it comes back
  kWithdraw,  // that it need not yield any more
  // Nothing: its time is over, and Slurm acts.
  kRequeue,  // it was to save, and is requeued
  kPutBack,  // it cannot save, and is requeued: it begins anew
  kEnd,      // it can neither save nor come back, and is ended
};
struct YieldOrder {
  YieldStep step = YieldStep::kNothing;
  std::optional<Yield> yield;  // what it is asked from now on
  // kAsk: its new place in the queue (JobLabel::queued_s), of an idle job. That one goes to the end of its tenant's
  // queue. Otherwise, as the older one, it would claim the GPUs that it did not use back from the claim of its tenant.
  std::optional<int64_t> queued_s;
};
// The time that a victim has.
struct Grace {
  int64_t grace_s = 120;  // from asking it to the deadline
  // Slurm's KillWait, from SIGTERM to SIGKILL. A victim that cannot save is requeued or ended early_s() before the
  // deadline, so that even one that ignores SIGTERM is gone by then.
  int64_t kill_wait_s = 0;
  int64_t early_s() const;  // kill_wait_s, but at most half of the grace
};
// `told`: what it was asked before, by its label; it still counts if Job::yields_to says so. `asked`: what the decision
// asks of it. `back`: how it gives its GPUs back. `comes_back`: Slurm can put it back into the queue.
YieldOrder yield_order(const ClusterState& state, const Job& job, const std::optional<Yield>& told,
                       const std::optional<YieldRequest>& asked, GiveBack back, bool comes_back, const Grace& grace);
// A job that was asked to yield, or to start again at another size, has ended and waits: its label from now on. The
// request is removed. One that comes back smaller keeps no minimum run time, and one whose size was chosen keeps that
// size only if that is what it was asked for.
JobLabel returned(JobLabel label, int64_t job);

// The number of nodes that a waiting job may get. Slurm chooses the nodes; any number within the job's own range is one
// that it can run on, also when nobody changes it again.
struct NodeRange {
  // What Slurm has. Of a range that nobody has changed it takes as many nodes as are free. Once an operator has changed
  // it, it takes the fewest, even if the range is what it was again (limit_set in get_node_cnts() of slurmctld's
  // node_scheduler.c).
  enum class Now {
    kThis,   // this range, and nobody has changed it
    kOther,  // another one, or it is not known: job_submit_dl cuts it to what the job may have at its submission
    kSet,    // what dlpolicyd has set, at some time (JobLabel::nodes_set)
  };
  int min = 1, max = 1;  // as the job was submitted
  Now now = Now::kThis;
};
struct NodeCount {
  int least = 0;  // 0: stays as it is
  int most = 1;
  bool exact() const { return least == most; }
};
// A job whose turn it is gets as many nodes as the decision gives it: what is free beyond that may be meant for others,
// and a spread job would wait for more nodes than have room. A spread job, which would else be packed, and an elastic
// one, which would else start on the fewest of its range, get no fewer either. An elastic claim that waits for victims
// has its whole range, or gets the fewest (Wanted::smallest). Any other elastic job that waits gets no more than the
// size that was chosen for it needs, since Slurm may start it as soon as others have given that up, before the next
// decision; or its whole range again, if dlpolicyd has set another. Nothing: the number stays as it is. `node_gpus`: of
// one of its nodes. `chosen`: learners (decide_steadily()); 0: no size was chosen.
std::optional<NodeCount> node_count(const Decision& decision, const Job& job, const Wanted& wanted,
                                    const NodeRange& range, int node_gpus, int chosen = 0);

}  // namespace dl::policy
