// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/lend.h"

#include <algorithm>

#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/placement.h"

namespace dl::policy {
namespace {

class Lender {
 public:
  explicit Lender(Round* round) : round_(*round) {}

  void lend() {
    std::vector<std::vector<int>> of_tenant(round_.state.tenants.size());
    for (const int index : round_.queue) {
      const Job& job = round_.state.jobs[index];
      if (job.tier == Tier::kGuaranteed) {
        if (!beyond_user_limit(index)) quota_full(index);
      } else {
        of_tenant[job.tenant].push_back(index);
      }
    }
    std::vector<size_t> next(round_.state.tenants.size());
    std::vector<double> key(round_.state.tenants.size());
    std::vector<int> active;
    for (size_t i = 0; i < of_tenant.size(); ++i) {
      if (of_tenant[i].empty()) continue;
      active.push_back(static_cast<int>(i));
      key[i] = fair_key(round_.state, round_.ledger, static_cast<int>(i));
    }
    const auto before = [&](int a, int b) {
      const int head_a = of_tenant[a][next[a]];
      const int head_b = of_tenant[b][next[b]];
      const bool in_group_a = round_.asked(head_a) <= round_.ledger.idle_in_group(a);
      const bool in_group_b = round_.asked(head_b) <= round_.ledger.idle_in_group(b);
      if (in_group_a != in_group_b) return in_group_a;
      if (key[a] != key[b]) return key[a] < key[b];
      const Job& x = round_.state.jobs[head_a];
      const Job& y = round_.state.jobs[head_b];
      return x.submit_s != y.submit_s ? x.submit_s < y.submit_s : x.id < y.id;
    };
    while (!active.empty()) {
      const auto best = std::min_element(active.begin(), active.end(), before);
      const int tenant = *best;
      if (borrow(of_tenant[tenant][next[tenant]])) key[tenant] = fair_key(round_.state, round_.ledger, tenant);
      if (++next[tenant] == of_tenant[tenant].size()) active.erase(best);
    }
  }

 private:
  // A job that may not borrow: its quota is used up, or there is no place for it.
  void quota_full(int index) {
    const Job& job = round_.state.jobs[index];
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type) || learners_for(job, round_.ledger.own_left(job.tenant, type)) == 0) continue;
      no_place(index);
      return;
    }
    Waiting& waiting = round_.wait(index, Reason::kQuota);
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (may_use(job, type)) waiting.free = std::max(waiting.free, round_.ledger.own_left(job.tenant, type));
    }
    waiting.used = round_.ledger.own(job.tenant);
    waiting.limit = round_.state.tenants[job.tenant].quota.total();
  }

  bool beyond_user_limit(int index) {
    const Job& job = round_.state.jobs[index];
    if (round_.users.allows(job)) return false;
    Waiting& waiting = round_.wait(index, Reason::kUserLimit);
    waiting.used = round_.users.held(job);
    waiting.limit = round_.users.limit(job);
    return true;
  }

  // Lends to the job if it fits. True if it started.
  bool borrow(int index) {
    if (beyond_user_limit(index)) return false;
    const Job& job = round_.state.jobs[index];
    const int size = job.gpus_per_learner;
    const int promised = round_.own_tenant.gpus_of(round_.own_tenant.to_be_recharged(job.tenant), round_.learners);
    if (!round_.ledger.within_borrow_limit(job.tenant, round_.asked(index) + promised)) {
      Waiting& waiting = round_.wait(index, Reason::kBorrowLimit);
      waiting.used = round_.ledger.borrowed(job.tenant);
      waiting.limit = round_.state.tenants[job.tenant].borrow_limit;
      return false;
    }
    bool kept = false;
    int most_free = 0;
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type)) continue;
      most_free = std::max(most_free, round_.free.total(type));
      int learners = std::min(round_.users.most_learners(job), round_.free.slots(type, size));
      if (learners < job.min_learners) continue;
      while (learners >= job.min_learners &&
             !(round_.ledger.within_borrow_limit(job.tenant, learners * size + promised) &&
               round_.ledger.lendable(type, learners * size)))
        --learners;
      if (learners < job.min_learners) {
        kept = true;
        continue;
      }
      auto parts = place(job.placement, round_.free, type, size, learners);
      if (!parts) continue;
      round_.start(index, Charge::kBorrowed, type, std::move(*parts));
      return true;
    }
    if (kept) {
      round_.wait(index, Reason::kKept).free = most_free;
    } else {
      no_place(index);
    }
    return false;
  }

  void no_place(int index) {
    const Job& job = round_.state.jobs[index];
    Waiting& waiting = round_.wait(index, Reason::kNoPlace);
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (may_use(job, type)) waiting.free = std::max(waiting.free, round_.free.total(type));
    }
    if (round_.impatient(job) && !keeping_) waiting.kept_for = keep_free(job);
  }

  // Keeps free GPUs for a job that has waited too long: on the nodes of the type where most of its learners fit
  // already.
  bool keep_free(const Job& job) {
    int best = kAnyType;
    int best_slots = -1;
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type)) continue;
      int could = 0;
      for (const int node : round_.free.nodes_of(type)) {
        if (round_.free.node(node).usable) could += round_.free.node(node).gpus / job.gpus_per_learner;
      }
      const int slots = round_.free.slots(type, job.gpus_per_learner);
      if (could >= job.min_learners && slots > best_slots) {
        best_slots = slots;
        best = type;
      }
    }
    if (best == kAnyType) return false;
    keeping_ = true;
    // The nodes with most free GPUs that could hold its learners once they are empty.
    std::vector<int> nodes;
    for (const int node : round_.free.nodes_of(best)) {
      if (round_.free.node(node).usable && round_.free.node(node).gpus >= job.gpus_per_learner) nodes.push_back(node);
    }
    std::stable_sort(nodes.begin(), nodes.end(), [&](int a, int b) { return round_.free.on(a) > round_.free.on(b); });
    int left = job.min_learners;
    for (const int node : nodes) {
      if (left <= 0) break;
      const int here = std::min(left, round_.free.node(node).gpus / job.gpus_per_learner);
      round_.free.add(node, -std::min(round_.free.on(node), here * job.gpus_per_learner));
      left -= here;
    }
    return true;
  }

  Round& round_;
  bool keeping_ = false;
};

}  // namespace

void lend(Round* round) {
  Lender(round).lend();
}

}  // namespace dl::policy
