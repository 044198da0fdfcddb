// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/round.h"

#include <algorithm>

namespace dl::policy {

Round::Round(const ClusterState& running, const ChargedBefore& so_far, Tell what)
    : tell(what),
      state(running),
      free(running),
      ledger(running),
      after(ledger),
      after_asked(ledger),
      own_tenant(running, so_far),
      users(running),
      head_waits(running.tenants.size()),
      learners(running.jobs.size()) {
  queue.reserve(state.jobs.size());
  asks.reserve(state.jobs.size());
  const auto older = [](const Job& x, const Job& y) {
    return x.submit_s != y.submit_s ? x.submit_s < y.submit_s : x.id < y.id;
  };
  // Who observes a cluster mostly has them in this order already, and there may be ten thousand.
  bool in_order = true;
  bool nice = false;
  for (size_t i = 0; i < state.jobs.size(); ++i) {
    const Job& job = state.jobs[i];
    if (i >= state.first_running && job.running) {
      learners[i] = job.learners();
      asks.emplace_back();
      continue;
    }
    in_order = in_order && (queue.empty() || !older(job, state.jobs[queue.back()]));
    nice = nice || job.nice != 0;
    nobody_promised = nobody_promised && !job.promised;
    some_guaranteed = some_guaranteed || job.tier == Tier::kGuaranteed;
    some_borrow = some_borrow || job.tier == Tier::kBorrow;
    if (job.yields_to != kNobody) yielded_to.push_back(job.yields_to);
    asks.push_back(Asked{job.tenant, job.type, job.gpus_per_learner, job.min_learners, job.tier, job.placement,
                         job.submit_s, job.limit_s, job.id, job.promised && job.charge == Charge::kOwn});
    queue.push_back(static_cast<int>(i));
  }
  if (!in_order)
    std::sort(queue.begin(), queue.end(), [&](int a, int b) { return older(state.jobs[a], state.jobs[b]); });
  if (nice) by_nice();
  if (tell == Tell::kAll) decision.waiting.reserve(queue.size());
}

// The jobs of a tenant change places among themselves; the tenants' turns stay.
void Round::by_nice() {
  const auto nice = [&](int index) { return state.jobs[index].nice; };
  std::vector<std::vector<int>> of_tenant(state.tenants.size());
  for (const int index : queue) of_tenant[state.jobs[index].tenant].push_back(index);
  for (std::vector<int>& jobs : of_tenant)
    std::stable_sort(jobs.begin(), jobs.end(), [&](int a, int b) { return nice(a) < nice(b); });
  std::vector<size_t> next(state.tenants.size());
  for (int& index : queue) {
    const int tenant = state.jobs[index].tenant;
    index = of_tenant[tenant][next[tenant]++];
  }
}

bool Round::some_borrower_fits(const std::vector<char>& settled) const {
  return std::any_of(queue.begin(), queue.end(), [&](int index) {
    const Asked& job = asks[index];
    if (settled[index] != 0 || job.tier == Tier::kGuaranteed) return false;
    for (int type = 0; type < state.type_count(); ++type)
      if ((job.type == kAnyType || job.type == type) && job.gpus() <= free.total(type) &&
          free.slots(type, job.gpus_per_learner) >= job.min_learners)
        return true;
    return false;
  });
}

void Round::count(int tenant, int type, int own, int borrowed) {
  ledger.add(tenant, type, own, borrowed);
  after.add(tenant, type, own, borrowed);
  after_asked.add(tenant, type, own, borrowed);
}

void Round::start(int index, Charge charge, int type, std::vector<Part> parts, int own_part) {
  decision.starts.push_back(Start{index, charge, type, {}, own_part});
  replace(&decision.starts.back(), std::move(parts));
}

void Round::replace(Start* start, std::vector<Part> parts) {
  const Job& job = state.jobs[start->job];
  free.give(start->parts, job.gpus_per_learner);
  free.take(parts, job.gpus_per_learner);
  int more = 0;
  for (const Part& part : parts) more += part.learners;
  for (const Part& part : start->parts) more -= part.learners;
  const int gpus = more * job.gpus_per_learner;
  // What it grows by later is borrowed, if any of it is.
  const int own = start->charge == Charge::kOwn ? gpus : start->parts.empty() ? start->own_part : 0;
  count(job.tenant, start->type, own, gpus - own);
  users.hold(job, gpus);
  if (own != 0) own_tenant.hold(OwnTenant::When::kNow, job.tenant, start->type, own);
  start->parts = std::move(parts);
}

Waiting& Round::wait(int index, Reason reason) {
  ++waits;
  if (tell != Tell::kAll && reason != Reason::kVictimsLeaving && reason != Reason::kVictimsProtected) return untold_;
  Waiting waiting;
  waiting.job = index;
  waiting.reason = reason;
  waiting.asked = asked(index);
  if (reason == Reason::kVictimsLeaving || reason == Reason::kVictimsProtected)
    users.hold(state.jobs[index], waiting.asked);
  decision.waiting.push_back(std::move(waiting));
  return decision.waiting.back();
}

Decision Round::take() {
  if (tell != Tell::kAll) {
    std::sort(decision.waiting.begin(), decision.waiting.end(),
              [](const Waiting& a, const Waiting& b) { return a.job < b.job; });
    return std::move(decision);
  }
  // By job: each waits once.
  std::vector<int> where(state.jobs.size(), -1);
  for (size_t i = 0; i < decision.waiting.size(); ++i) where[decision.waiting[i].job] = static_cast<int>(i);
  std::vector<Waiting> by_job;
  by_job.reserve(decision.waiting.size());
  for (const int i : where) {
    if (i >= 0) by_job.push_back(std::move(decision.waiting[i]));
  }
  decision.waiting = std::move(by_job);
  return std::move(decision);
}

bool may_use(const Job& job, int type) {
  return job.type == kAnyType || job.type == type;
}

int learners_for(const Job& job, int gpus) {
  const int learners = std::min(job.max_learners, gpus / job.gpus_per_learner);
  return learners >= job.min_learners ? learners : 0;
}

}  // namespace dl::policy
