// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/ledger.h"

#include <algorithm>
#include <numeric>

namespace dl::policy {
namespace {

int sum(const std::vector<int>& values) {
  return std::accumulate(values.begin(), values.end(), 0);
}

int sum_of(const std::vector<int>& values, size_t first, size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), 0);
}

}  // namespace

Ledger::Ledger(const ClusterState& state)
    : state_(&state),
      own_(state.tenants.size() * state.types.size()),
      borrowed_(state.tenants.size() * state.types.size()),
      capacity_(state.types.size()) {
  int groups = 0;
  for (const Tenant& tenant : state.tenants) groups = std::max(groups, tenant.group + 1);
  group_idle_.resize(static_cast<size_t>(groups));
  for (const Tenant& tenant : state.tenants) {
    if (tenant.group >= 0) group_idle_[tenant.group] += tenant.quota.total();
  }
  for (const Node& node : state.nodes) capacity_[node.type] += node.gpus;
  spare_ = capacity_;
  spare_in_all_ = sum(capacity_);
  for (size_t i = 0; i < state.tenants.size(); ++i) count(static_cast<int>(i), -1);
  for (const Job& job : state.jobs) {
    if (job.running) add(job.tenant, state.type_held(job), job.gpus(), job.charge);
  }
}

void Ledger::add(int tenant, int type, int gpus, Charge charge) {
  count(tenant, +1);
  (charge == Charge::kOwn ? own_ : borrowed_)[at(tenant, type)] += gpus;
  count(tenant, -1);
  const int group = state_->tenants[tenant].group;
  if (group >= 0) group_idle_[group] -= gpus;
}

int Ledger::own_beyond_typed(int tenant) const {
  int beyond = 0;
  for (int type = 0; type < state_->type_count(); ++type)
    beyond += std::max(0, own(tenant, type) - state_->tenants[tenant].quota.of(type));
  return beyond;
}

int Ledger::own_left(int tenant, int type) const {
  const GpuCounts& quota = state_->tenants[tenant].quota;
  const int any = quota.any - own_beyond_typed(tenant);
  return std::max(0, quota.of(type) - own(tenant, type)) + any;
}

bool Ledger::fits_own(int tenant, int type, int gpus) const {
  return gpus <= own_left(tenant, type);
}

bool Ledger::within_borrow_limit(int tenant, int gpus) const {
  const int limit = state_->tenants[tenant].borrow_limit;
  return limit == kNoLimit || borrowed(tenant) + gpus <= limit;
}

int Ledger::kept_of_type(int tenant, int type) const {
  const Tenant& who = state_->tenants[tenant];
  if (!who.lend) return 0;
  return std::max(0, who.quota.of(type) - who.lend->of(type) - own(tenant, type));
}

int Ledger::kept_any(int tenant) const {
  const Tenant& who = state_->tenants[tenant];
  if (!who.lend) return 0;
  return std::max(0, who.quota.any - who.lend->any - own_beyond_typed(tenant));
}

void Ledger::count(int tenant, int sign) {
  for (int type = 0; type < state_->type_count(); ++type) {
    const int gpus = own(tenant, type) + borrowed(tenant, type) + kept_of_type(tenant, type);
    spare_[type] += sign * gpus;
    spare_in_all_ += sign * gpus;
  }
  spare_in_all_ += sign * kept_any(tenant);
}

bool Ledger::lendable_beside(int tenant, int type, int gpus) const {
  int of_type = spare_[type];
  int all = spare_in_all_;
  if (tenant != kNobody) {
    of_type += kept_of_type(tenant, type);
    all += kept_any(tenant);
    for (int t = 0; t < state_->type_count(); ++t) all += kept_of_type(tenant, t);
  }
  return gpus <= of_type && gpus <= all;
}

int Ledger::own(int tenant) const {
  return sum_of(own_, at(tenant, 0), capacity_.size());
}
int Ledger::borrowed(int tenant) const {
  return sum_of(borrowed_, at(tenant, 0), capacity_.size());
}

double Ledger::borrowed_weighted(int tenant) const {
  double held = 0;
  for (int type = 0; type < state_->type_count(); ++type) held += borrowed(tenant, type) * state_->weight_of_type(type);
  return held;
}

int Ledger::idle_quota(int tenant) const {
  return std::max(0, state_->tenants[tenant].quota.total() - own(tenant));
}

int Ledger::idle_in_group(int tenant) const {
  const int group = state_->tenants[tenant].group;
  return group >= 0 ? std::max(0, group_idle_[group]) : 0;
}

bool could_be_own(const ClusterState& state, const Job& job) {
  const GpuCounts& quota = state.tenants[job.tenant].quota;
  for (int type = 0; type < state.type_count(); ++type)
    if ((job.type == kAnyType || job.type == type) &&
        quota.of(type) + quota.any >= job.min_learners * job.gpus_per_learner)
      return true;
  return false;
}

namespace {

// A claim that was promised its place will have its part of the quota: nobody moves into that meanwhile.
void reserve(const ClusterState& state, const Job& job, Ledger* ledger) {
  const int gpus = job.min_learners * job.gpus_per_learner;
  if (!job.promised_parts.empty())
    return ledger->add(job.tenant, state.nodes[job.promised_parts.front().node].type, gpus, Charge::kOwn);
  int best = job.type;
  for (int type = 0; type < state.type_count() && job.type == kAnyType; ++type)
    if (best == kAnyType || ledger->own_left(job.tenant, type) > ledger->own_left(job.tenant, best)) best = type;
  if (best != kAnyType) ledger->add(job.tenant, best, gpus, Charge::kOwn);
}

// Of the running jobs in the order in which they are charged. idle_pays: by tenant, whether its idle jobs do without
// its quota.
std::vector<Charge> charges(const ClusterState& state, const std::vector<int>& order,
                            const std::vector<char>& idle_pays) {
  // Each tenant's quota from empty: only the jobs that are charged to it so far.
  ClusterState bare;
  bare.types = state.types;
  bare.tenants = state.tenants;
  Ledger ledger(bare);
  std::vector<Charge> all;
  for (const int index : order) {
    const Job& job = state.jobs[index];
    if (!job.running) {
      reserve(state, job, &ledger);
      all.push_back(job.charge);
      continue;
    }
    const int type = state.type_held(job);
    const bool may_own = job.tier == Tier::kAuto && !(job.idle && idle_pays[job.tenant]);
    const bool own = job.tier == Tier::kGuaranteed || (may_own && ledger.fits_own(job.tenant, type, job.gpus()));
    all.push_back(own ? Charge::kOwn : Charge::kBorrowed);
    ledger.add(job.tenant, type, job.gpus(), all.back());
  }
  return all;
}

// By tenant: whether what it would borrow is within its limit.
std::vector<char> within_limit(const ClusterState& state, const std::vector<int>& order,
                               const std::vector<Charge>& charges) {
  std::vector<int> borrowed(state.tenants.size());
  for (size_t i = 0; i < order.size(); ++i)
    if (state.jobs[order[i]].running && charges[i] == Charge::kBorrowed)
      borrowed[state.jobs[order[i]].tenant] += state.jobs[order[i]].gpus();
  std::vector<char> within;
  for (size_t i = 0; i < borrowed.size(); ++i) {
    const int limit = state.tenants[i].borrow_limit;
    within.push_back(limit == kNoLimit || borrowed[i] <= limit ? 1 : 0);
  }
  return within;
}

}  // namespace

std::vector<Move> charge(const ClusterState& state) {
  std::vector<int> order;
  for (size_t i = 0; i < state.jobs.size(); ++i) {
    const Job& job = state.jobs[i];
    const bool promised = !job.running && job.promised && job.tier != Tier::kBorrow;
    if (job.running || promised) order.push_back(static_cast<int>(i));
  }
  const auto rank = [&](int index) {
    const Job& job = state.jobs[index];
    if (job.running && job.tier == Tier::kGuaranteed) return 0;
    if (!job.running) return 2;
    return job.charge == Charge::kOwn ? 1 : 3;
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    if (state.jobs[a].start_s != state.jobs[b].start_s) return state.jobs[a].start_s < state.jobs[b].start_s;
    return state.jobs[a].id < state.jobs[b].id;
  });
  std::vector<Charge> to = charges(state, order, std::vector<char>(state.tenants.size(), 1));
  const bool idle = std::any_of(order.begin(), order.end(), [&](int index) { return state.jobs[index].idle; });
  if (idle) to = charges(state, order, within_limit(state, order, to));
  std::vector<Move> moves;
  for (size_t i = 0; i < order.size(); ++i)
    if (state.jobs[order[i]].running && to[i] != state.jobs[order[i]].charge) moves.push_back(Move{order[i], to[i]});
  std::sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.job < b.job; });
  return moves;
}

}  // namespace dl::policy
