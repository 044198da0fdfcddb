// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/own_tenant.h"

#include <algorithm>
#include <tuple>

namespace dl::policy {
namespace {

VictimSet set_of(const ClusterState& state, const SoFar& so_far, std::vector<Victim> victims, bool exact) {
  VictimSet set;
  set.exact = exact;
  std::sort(victims.begin(), victims.end(), [](const Victim& a, const Victim& b) { return a.job < b.job; });
  for (const Victim& victim : victims) {
    const Job& job = state.jobs[victim.job];
    if (victim.learners_left == 0) {
      set.stopped_gpu_s += victim.lost_gpu_s;
    } else {
      set.shrunk_gpu_s += victim.lost_gpu_s;
      set.shrunk_gpus += (so_far.left[victim.job] - victim.learners_left) * job.gpus_per_learner;
    }
  }
  set.victims = std::move(victims);
  return set;
}

// The quota of one tenant alone, which can be tried out many times over.
class QuotaOf {
 public:
  QuotaOf(const ClusterState& state, const Ledger& ledger, int tenant)
      : quota_(state.tenants[tenant].quota), any_left_(quota_.any) {
    for (int type = 0; type < state.type_count(); ++type) {
      typed_left_.push_back(quota_.of(type));
      add(type, ledger.own(tenant, type));
    }
  }
  int left(int type) const { return std::max(0, std::max(0, typed_left_[type]) + any_left_); }
  void add(int type, int gpus) {
    any_left_ -= std::min(0, typed_left_[type]);
    typed_left_[type] -= gpus;
    any_left_ += std::min(0, typed_left_[type]);
  }

 private:
  const GpuCounts& quota_;
  int any_left_;
  std::vector<int> typed_left_;  // below 0: what is taken of the quota for any type
};

// `both`: what to do with the numbers of a job that is in both lists.
template <typename Both>
std::vector<Leaving> merged(const std::vector<Leaving>& a, const std::vector<Leaving>& b, Both both) {
  std::vector<Leaving> all = a;
  for (const Leaving& more : b) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const Leaving& one) { return one.job == more.job; });
    if (same == all.end()) {
      all.push_back(more);
    } else {
      same->gpus = both(same->gpus, more.gpus);
    }
  }
  return all;
}

}  // namespace

std::vector<Leaving> all_beside(const std::vector<Leaving>& a, const std::vector<Leaving>& b) {
  return merged(a, b, [](int x, int y) { return x + y; });
}

std::vector<Leaving> all_of(const std::vector<Leaving>& a, const std::vector<Leaving>& b) {
  return merged(a, b, [](int x, int y) { return std::max(x, y); });
}

OwnTenant::OwnTenant(const ClusterState& state, const ChargedBefore& so_far)
    : state_(state),
      so_far_(so_far),
      now_(Ledger::of_nobody(state, false)),
      later_(now_),
      on_quota_(state.tenants.size()),
      may_yield_(state.tenants.size()),
      left_quota_(state.tenants.size()),
      own_(state.jobs.size()),
      out_now_(state.jobs.size()),
      out_later_(state.jobs.size()) {
  for (size_t i = state.first_running; i < state.jobs.size(); ++i) {
    const Job& job = state.jobs[i];
    if (!job.running) continue;
    const int gpus = job.gpus();
    const int own = job.own_of(gpus);
    own_[i] = own;
    if (job.tier == Tier::kGuaranteed) {
      now_.add(job.tenant, state.type_held(job), own, gpus - own);
      continue;
    }
    if (own < so_far.own_of(static_cast<int>(i), gpus)) left_quota_[job.tenant] = 1;
    if (own > 0) on_quota_[job.tenant].push_back(static_cast<int>(i));
    if (job.pausable && (job.yields_to == kNobody || job.yields_until_learners > 0))
      may_yield_[job.tenant].push_back(static_cast<int>(i));
  }
  later_ = now_;
  struct Key {
    int rank;
    int64_t start_s, id;
    int job;
  };
  std::vector<Key> keys;
  for (std::vector<int>& jobs : on_quota_) {
    keys.clear();
    for (const int index : jobs) {
      const Move before = so_far.of(index);
      const int rank = before.to == Charge::kOwn ? 0 : before.own_part > 0 ? 1 : 2;
      keys.push_back(Key{rank, state.jobs[index].start_s, state.jobs[index].id, index});
    }
    std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
      return std::tie(a.rank, a.start_s, a.id) < std::tie(b.rank, b.start_s, b.id);
    });
    for (size_t i = 0; i < keys.size(); ++i) jobs[i] = keys[i].job;
  }
}

bool OwnTenant::could_hold(int tenant, int type, int gpus) const {
  return !(on_quota_[tenant].empty() && may_yield_[tenant].empty()) && later_.fits_own(tenant, type, gpus);
}

int OwnTenant::own(int job, int learners) const {
  return std::min(own_[job], learners * state_.jobs[job].gpus_per_learner);
}

int OwnTenant::borrowed(int job, int learners) const {
  return learners * state_.jobs[job].gpus_per_learner - own(job, learners);
}

std::vector<Leaving> OwnTenant::displaced(When when, int tenant, int type, int gpus,
                                          const std::vector<int>& learners) const {
  std::vector<Leaving> out;
  QuotaOf quota(state_, when == When::kNow ? now_ : later_, tenant);
  quota.add(type, gpus);
  for (const int index : on_quota_[tenant]) {
    const int type_held = state_.type_held(state_.jobs[index]);
    const int leaves = when == When::kNow ? 0 : out_later_[index] - out_now_[index];
    const int held = own(index, learners[index]) - leaves;
    if (held <= 0) continue;
    const int stays = std::min(held, quota.left(type_held));
    quota.add(type_held, stays);
    if (stays < held) out.push_back(Leaving{index, held - stays});
  }
  return out;
}

bool OwnTenant::lent_beside(Ledger* after, const Job& job, int type, const std::vector<Leaving>& moved,
                            const std::vector<int>& learners) const {
  const auto run = [&](int sign) {
    after->add(job.tenant, type, sign * job.min_learners * job.gpus_per_learner, Charge::kOwn);
    for (const auto& [index, most] : moved) {
      const int gpus = sign * std::min(most, own(index, learners[index]));
      after->add(job.tenant, state_.type_held(state_.jobs[index]), -gpus, gpus);
    }
  };
  run(+1);
  const bool lent = after->lendable_beside(job.tenant, type, 0);
  run(-1);
  return lent;
}

void OwnTenant::give_up(Ledger* ledger, int job, int from, int to) const {
  const Job& who = state_.jobs[job];
  ledger->add(who.tenant, state_.type_held(who), own(job, to) - own(job, from),
              borrowed(job, to) - borrowed(job, from));
}

bool OwnTenant::all_borrowed_so_far(const std::vector<Leaving>& jobs) const {
  return std::all_of(jobs.begin(), jobs.end(), [&](const Leaving& leaving) {
    const Job& job = state_.jobs[leaving.job];
    if (left_quota_[job.tenant] != 0) return false;
    const Move before = so_far_.of(leaving.job);
    return before.to == Charge::kBorrowed && before.own_part <= own_[leaving.job] - leaving.gpus;
  });
}

int OwnTenant::gpus_of(const std::vector<Leaving>& jobs, const std::vector<int>& learners) const {
  int gpus = 0;
  for (const Leaving& leaving : jobs) gpus += std::min(leaving.gpus, own(leaving.job, learners[leaving.job]));
  return gpus;
}

void OwnTenant::hold(When when, int tenant, int type, int gpus) {
  later_.add(tenant, type, gpus, Charge::kOwn);
  if (when == When::kNow) now_.add(tenant, type, gpus, Charge::kOwn);
}

void OwnTenant::displace(When when, const std::vector<Leaving>& jobs) {
  for (const auto& [index, gpus] : jobs) {
    nobody_out_ = false;
    (when == When::kNow ? out_now_ : out_later_)[index] += gpus;
    if (when == When::kNow) own_[index] -= gpus;
    out_later_[index] = std::max(out_later_[index], out_now_[index]);
  }
}

std::vector<Leaving> OwnTenant::to_be_recharged(int tenant) const {
  std::vector<Leaving> jobs;
  for (const int index : on_quota_[tenant])
    if (out_later_[index] > out_now_[index]) jobs.push_back(Leaving{index, out_later_[index] - out_now_[index]});
  return jobs;
}

std::vector<Leaving> OwnTenant::all_out(When when) const {
  if (nobody_out_) return {};
  const std::vector<int>& out = when == When::kNow ? out_now_ : out_later_;
  std::vector<Leaving> all;
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] > 0) all.push_back(Leaving{static_cast<int>(i), out[i]});
  return all;
}

std::vector<int> order_of_claims(const ClusterState& state, const std::vector<int>& queue) {
  std::vector<int> guaranteed(state.tenants.size());
  for (const int index : queue) guaranteed[state.jobs[index].tenant] += state.jobs[index].tier == Tier::kGuaranteed;
  std::vector<std::vector<int>> after(state.tenants.size());
  std::vector<int> order;
  order.reserve(queue.size());
  for (const int index : queue) {
    const Job& job = state.jobs[index];
    if (job.tier == Tier::kBorrow) continue;
    if (job.tier != Tier::kGuaranteed && guaranteed[job.tenant] > 0) {
      after[job.tenant].push_back(index);
      continue;
    }
    order.push_back(index);
    if (job.tier != Tier::kGuaranteed || --guaranteed[job.tenant] > 0) continue;
    order.insert(order.end(), after[job.tenant].begin(), after[job.tenant].end());
  }
  return order;
}

std::optional<VictimSet> find_allowed_victims(const ClusterState& state, const FreeGpus& free, int type,
                                              int gpus_per_learner, int learners, const std::vector<int>& candidates,
                                              const std::vector<int>& also, int* budget, const SoFar& so_far,
                                              const std::function<bool(const std::vector<Victim>&)>& allowed) {
  std::optional<VictimSet> found =
      find_victims(state, free, type, gpus_per_learner, learners, candidates, budget, true, &so_far);
  if (!found || allowed(found->victims)) return found;
  std::vector<Victim> victims = found->victims;
  const auto named = [&](int job) {
    return std::any_of(victims.begin(), victims.end(), [job](const Victim& victim) { return victim.job == job; });
  };
  std::vector<Victim> more;
  for (const int job : also)
    if (!named(job) && so_far.left[job] > 0) more.push_back(Victim{job, 0, lost_if_paused(state, state.jobs[job])});
  std::stable_sort(more.begin(), more.end(), [&](const Victim& a, const Victim& b) {
    return a.lost_gpu_s * state.jobs[b.job].gpus() < b.lost_gpu_s * state.jobs[a.job].gpus();
  });
  // Jobs that were only to shrink may have to stop.
  for (const Victim& victim : victims)
    if (victim.learners_left > 0 && std::find(also.begin(), also.end(), victim.job) != also.end())
      more.push_back(Victim{victim.job, 0, victim.lost_gpu_s});
  for (const Victim& next : more) {
    const auto shrinks =
        std::find_if(victims.begin(), victims.end(), [&](const Victim& victim) { return victim.job == next.job; });
    if (shrinks != victims.end()) {
      *shrinks = next;
    } else {
      victims.push_back(next);
    }
    if (allowed(victims)) break;
  }
  if (!allowed(victims)) return std::nullopt;
  const auto fits = [&](const std::vector<Victim>& chosen) {
    FreeGpus room = free;
    for (const Victim& victim : chosen) {
      const Job& job = state.jobs[victim.job];
      room.give(parts_after_shrink(job.parts, so_far.left[victim.job]), job.gpus_per_learner);
      room.take(parts_after_shrink(job.parts, victim.learners_left), job.gpus_per_learner);
    }
    return room.slots(type, gpus_per_learner) >= learners && allowed(chosen);
  };
  std::stable_sort(victims.begin(), victims.end(),
                   [](const Victim& a, const Victim& b) { return b.lost_gpu_s < a.lost_gpu_s; });
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < victims.size(); ++i) {
      std::vector<Victim> without = victims;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
      if (fits(without)) {
        victims = std::move(without);
        changed = true;
        break;
      }
      const Job& job = state.jobs[victims[i].job];
      std::vector<Victim> gentler = victims;
      for (int left = so_far.left[victims[i].job] - 1; left >= job.min_learners && left > victims[i].learners_left;
           --left) {
        gentler[i].learners_left = left;
        if (!fits(gentler)) continue;
        victims = gentler;
        changed = true;
        break;
      }
    }
  }
  return set_of(state, so_far, std::move(victims), false);
}

}  // namespace dl::policy
