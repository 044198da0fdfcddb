// SPDX-License-Identifier: Apache-2.0
// What the steps of one decision share: what is free, who holds what, and what has been decided so far. Only for the
// steps that decide() calls: claims, lending and balance.
#pragma once

#include <vector>

#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/policy/free_gpus.h"
#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policy/own_tenant.h"
#include "slurm-plugin/policy/user_limits.h"

namespace dl::policy {

// What a waiting job asks for, stored apart from its Job: a decision looks at these few fields of thousands of jobs
// several times.
struct Asked {
  int tenant = 0;
  int type = kAnyType;
  int gpus_per_learner = 1;
  int min_learners = 1;
  Tier tier = Tier::kAuto;
  Placement placement = Placement::kPack;
  int64_t submit_s = 0;
  int64_t limit_s = 0;
  int64_t id = 0;
  bool promised = false;  // as Job::promised, of a claim

  int gpus() const { return gpus_per_learner * min_learners; }
};

struct Round {
  // `running`: the state with its running jobs charged anew; `so_far`: as they were charged before. Both must outlive
  // this.
  Round(const ClusterState& running, const ChargedBefore& so_far, Tell what);

  int asked(int index) const { return state.jobs[index].min_learners * state.jobs[index].gpus_per_learner; }
  bool is_guaranteed(int index) const { return state.jobs[index].tier == Tier::kGuaranteed; }
  // Is its minimum run time over? A start time in the future protects nobody.
  bool old_enough(const Job& job) const {
    return job.start_s > state.now_s || state.now_s - job.start_s >= job.min_run_s;
  }
  bool impatient(const Job& job) const {
    return state.patience_s > 0 && state.now_s - job.submit_s >= state.patience_s;
  }

  // Whether what is free has room for a job of the queue that may borrow. Jobs with settled[job] != 0 do not count.
  bool some_borrower_fits(const std::vector<char>& settled) const;

  // Counts into all ledgers.
  void count(int tenant, int type, int own, int borrowed);
  // A running job that was asked to yield will keep `to` learners instead of `from`: counted in `after` and
  // `after_asked`.
  void leave(int index, int from, int to) {
    own_tenant.give_up(&after, index, from, to);
    own_tenant.give_up(&after_asked, index, from, to);
  }
  // The same for one that is protected now, and will be asked later: counted in `after` alone.
  void plan_to_leave(int index, int from, int to) { own_tenant.give_up(&after, index, from, to); }
  // `own_part`: as Job::own_part, if it is charged as borrowed.
  void start(int index, Charge charge, int type, std::vector<Part> parts, int own_part = 0);
  // One of decision.starts gets other parts, of the same type, which may overlap those that it had.
  void replace(Start* start, std::vector<Part> parts);
  // The reference is valid until the next job waits.
  Waiting& wait(int index, Reason reason);
  // What was decided, in the order that decide.h promises, without `moves`. To be called once.
  Decision take();

  void by_nice();  // sorts each tenant's jobs in `queue` by their nice

  const Tell tell;
  const ClusterState& state;
  FreeGpus free;
  Ledger ledger;
  Ledger after;        // the same once all victims have gone, also those that will only be asked later
  Ledger after_asked;  // once those have gone that were asked: what is promised now must hold with these alone
  OwnTenant own_tenant;
  UserLimits users;  // counts also what jobs that wait for victims will hold
  // Pending jobs on which nothing is decided yet, oldest first; the jobs of one tenant by their nice first.
  std::vector<int> queue;
  // By tenant: a job of it has waited too long for the quota, so that no other job of the tenant gets any.
  std::vector<char> head_waits;
  std::vector<int> learners;  // by running job
  std::vector<Asked> asks;    // by waiting job
  bool some_guaranteed = false;
  bool some_borrow = false;         // some jobs that never use the quota
  std::vector<int64_t> yielded_to;  // ids of the claimants for which waiting jobs gave way
  bool nobody_promised = true;      // no job of the queue, as it was at first, was promised anything
  int waits = 0;                    // jobs of which it was decided that they wait, told of or not
  Decision decision;

 private:
  Waiting untold_;  // of a job of which nothing is told
};

bool may_use(const Job& job, int type);

// How many learners of the job `gpus` GPUs are enough for, at most its maximum; 0 if fewer than its minimum.
int learners_for(const Job& job, int gpus);

}  // namespace dl::policy
