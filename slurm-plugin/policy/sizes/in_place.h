// SPDX-License-Identifier: Apache-2.0
// Which of the jobs that decide_steadily() would make larger grow where they are, without going back into the queue: on
// whole free nodes beside those that they have. dlrun has such nodes by a companion, a second job of the same user in
// the borrow tier. So whatever decide() says of borrowers holds for companions, and this decides nothing of its own
// about quotas, limits and turns: it asks decide(). Pure.
//
// A companion is given back before any job stops or shrinks, since its job goes on without it (Job::companion).
#pragma once

#include <map>

#include "slurm-plugin/policy/sizes/steady.h"

namespace dl::policy {

// Whether a job may be offered nodes: a vector of bool by another name, since nothing can point into one.
enum class MayGrow : char {
  kNo,   // it can only be resized through the queue
  kYes,  // a dlrun in it hears of them
};

// A running job is offered whole free nodes.
struct Growth {
  int job = 0;
  int nodes = 0;
  int learners = 0;       // on them, in all
  std::vector<int> free;  // nodes that are free for it; Slurm chooses, and may choose others
  int before = 0;         // learners that it has, those on companions among them
};

// Takes from sizes->resizes what can grow in place, and returns that. may: by job of the state. The rules, beyond those
// of decide_steadily():
// - The job keeps its learners where they are, with as many on each new node as on each that it has, and these fill it.
// - No job that could use these GPUs waits or starts, whatever it waits for, nor does any job of its tenant.
// - A companion that asked for these nodes would start at once, as a borrower, beside all others that are offered now.
// - If it is known when the job ends, that is no sooner than kTimesCost times what a change costs it.
// What cannot grow so stays in sizes->resizes. Preconditions as decide_steadily(), whose answer `sizes` is.
std::vector<Growth> grow_in_place(const ClusterState& state, const std::vector<MayGrow>& may, SteadySizes* sizes);

// The companion for it, as job_submit_dl describes it before it starts: a learner of so many GPUs for each node.
Job companion_for(const ClusterState& state, const Growth& growth, int64_t id);

// Remembers for each job when the number of its companions last changed, and whether what it was offered last came of
// anything. A job rests after that as it does after a resize, so that it does not take nodes again at once that were
// taken back. It does little harm if this is lost: the time of the last offer is in the job's label.
class GrowthMemory {
 public:
  // Within this time after it was offered nodes, dlrun has submitted a companion.
  static constexpr int64_t kAnswerS = 60;
  static constexpr int64_t kRefusedS = 3600;

  // To be called in each round for each running job. offered_s: when it was last offered nodes; 0: never. companions:
  // how many it has, also of those that wait or are ending.
  void look(int64_t job, int64_t offered_s, int companions, int64_t now_s);
  // Until when it keeps its size, if it does so for rest_s after each change.
  int64_t rests_until_s(int64_t job, int64_t rest_s) const;
  // What it was offered came of nothing. It is not offered nodes again for kRefusedS.
  bool refused(int64_t job, int64_t now_s) const;
  // Forgets jobs that were not looked at since the last call.
  void tidy();

 private:
  struct Known {
    int64_t changed_s = 0;  // when it was offered nodes, or got or lost a companion
    int64_t offered_s = 0;
    int64_t answered_s = 0;  // the offer after which it got a companion
    int companions = 0;
    bool looked = true;
  };
  std::map<int64_t, Known> jobs_;
};

}  // namespace dl::policy
