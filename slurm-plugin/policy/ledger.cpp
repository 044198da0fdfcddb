// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/ledger.h"

#include <algorithm>
#include <numeric>
#include <tuple>

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

Ledger::Ledger(const ClusterState& state, bool with_groups) : Ledger(state, with_groups, Jobs::kRunning) {}

Ledger Ledger::of_nobody(const ClusterState& state, bool with_groups) {
  return Ledger(state, with_groups, Jobs::kNone);
}

Ledger::Ledger(const ClusterState& state, bool with_groups, Jobs jobs)
    : state_(&state),
      own_(state.tenants.size() * state.types.size()),
      borrowed_(state.tenants.size() * state.types.size()),
      capacity_(state.types.size()),
      shared_(state),
      with_groups_(with_groups) {
  int groups = static_cast<int>(state.groups.size());
  for (const Tenant& tenant : state.tenants) groups = std::max(groups, tenant.group + 1);
  group_idle_.resize(static_cast<size_t>(groups));
  for (const Tenant& tenant : state.tenants)
    for (int group = tenant.group; group >= 0; group = state.parent_of(group))
      group_idle_[group] += tenant.quota.total();
  for (size_t i = 0; i < state.groups.size(); ++i)
    for (int group = static_cast<int>(i); group >= 0; group = state.parent_of(group))
      group_idle_[group] += state.groups[i].quota.total();
  for (const Node& node : state.nodes) capacity_[node.type] += node.gpus;
  spare_ = capacity_;
  spare_in_all_ = sum(capacity_);
  for (size_t i = state.first_running; i < state.jobs.size() && jobs == Jobs::kRunning; ++i) {
    const Job& job = state.jobs[i];
    if (!job.running) continue;
    const int gpus = job.gpus();
    const int own = job.own_of(gpus);
    hold(job.tenant, state.type_held(job), own, gpus - own);
  }
  for (size_t i = 0; i < state.tenants.size(); ++i) count(static_cast<int>(i), -1);
}

void Ledger::add(int tenant, int type, int gpus, Charge charge) {
  if (charge == Charge::kOwn) {
    add(tenant, type, gpus, 0);
  } else {
    add(tenant, type, 0, gpus);
  }
}

void Ledger::add(int tenant, int type, int own, int borrowed) {
  count(tenant, +1);
  hold(tenant, type, own, borrowed);
  count(tenant, -1);
}

void Ledger::hold(int tenant, int type, int own, int borrowed) {
  if (own != 0 && with_groups_ && shared_.concerns(tenant)) shared_.add(tenant, &own_[at(tenant, 0)], type, own);
  own_[at(tenant, type)] += own;
  borrowed_[at(tenant, type)] += borrowed;
  for (int group = state_->tenants[tenant].group; group >= 0; group = state_->parent_of(group))
    group_idle_[group] -= own + borrowed;
}

int Ledger::own_part(int tenant, int type, int gpus) const {
  return std::clamp(own_left(tenant, type), 0, gpus);
}

int Ledger::own_beyond_typed(int tenant) const {
  int beyond = 0;
  for (int type = 0; type < state_->type_count(); ++type)
    beyond += std::max(0, own(tenant, type) - state_->tenants[tenant].quota.of(type));
  return beyond;
}

int Ledger::own_left(int tenant, int type) const {
  const GpuCounts& quota = state_->tenants[tenant].quota;
  const int typed = std::max(0, quota.of(type) - own(tenant, type));
  const int any = quota.any - own_beyond_typed(tenant);
  if (!with_groups_ || !shared_.concerns(tenant)) return typed + any;
  const int shared = shared_.left(tenant, type);
  // Where the groups are used beyond what they own, only a tenant is over its quota that holds more than its own.
  if (any < 0 && shared < 0) return shared;
  return typed + std::max(0, any) + std::max(0, shared);
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

int Ledger::depth_lent(int tenant, int gpus) const {
  int depth = 0;
  for (int group = state_->tenants[tenant].group; group >= 0; group = state_->parent_of(group))
    if (depth > 0 || gpus <= std::max(0, group_idle_[group])) ++depth;
  return depth;
}

bool could_be_own(const ClusterState& state, const Job& job) {
  for (int type = 0; type < state.type_count(); ++type)
    if ((job.type == kAnyType || job.type == type) &&
        most_own(state, job.tenant, type) >= job.min_learners * job.gpus_per_learner)
      return true;
  return false;
}

namespace {

// A claim that was promised its place will have its part of the quota: nobody moves into that meanwhile. No more than
// is left: a guaranteed one has jobs of its tenant leave the quota only when it starts, and until then none of another
// type leaves for it. Returns how much that is.
int reserve(const ClusterState& state, const Job& job, Ledger* ledger) {
  const int gpus = job.min_learners * job.gpus_per_learner;
  const auto hold = [&](int type) {
    const int left = ledger->own_part(job.tenant, type, gpus);
    ledger->add(job.tenant, type, left, Charge::kOwn);
    return left;
  };
  if (!job.promised_parts.empty()) return hold(state.nodes[job.promised_parts.front().node].type);
  int best = job.type;
  for (int type = 0; type < state.type_count() && job.type == kAnyType; ++type)
    if (best == kAnyType || ledger->own_left(job.tenant, type) > ledger->own_left(job.tenant, best)) best = type;
  return best == kAnyType ? 0 : hold(best);
}

// A job that is charged: running, or pending and promised a place.
struct Holder {
  int job = 0;
  int gpus = 0;  // of a pending one: those that its tenant's jobs will leave to it, by which others become borrowed
};

// GPUs of the running jobs that are own, in the order in which they are charged. idle_pays: by tenant, whether its idle
// jobs do without its quota.
std::vector<int> charges(const ClusterState& state, const std::vector<Holder>& order,
                         const std::vector<char>& idle_pays) {
  // Each tenant's quota from empty: only the jobs that are charged to it so far.
  Ledger ledger = Ledger::of_nobody(state);
  std::vector<int> all(order.size());
  const auto give = [&](size_t i, const Job& job, int most) {
    const int type = state.type_held(job);
    const int gpus = job.tier == Tier::kGuaranteed ? most : ledger.own_part(job.tenant, type, most);
    if (gpus == 0) return;
    all[i] += gpus;
    ledger.add(job.tenant, type, gpus, Charge::kOwn);
  };
  const auto may_own = [&](const Job& job) {
    return job.tier != Tier::kBorrow && !(job.tier == Tier::kAuto && job.idle && idle_pays[job.tenant] != 0);
  };
  // First to each what it has already, so that charging twice moves nothing.
  for (size_t i = 0; i < order.size(); ++i) {
    const Job& job = state.jobs[order[i].job];
    if (!job.running) {
      all[i] = std::min(order[i].gpus, reserve(state, job, &ledger));
    } else if (may_own(job)) {
      give(i, job, job.tier == Tier::kGuaranteed ? order[i].gpus : job.own_of(order[i].gpus));
    }
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const Job& job = state.jobs[order[i].job];
    if (job.running && all[i] < order[i].gpus && may_own(job)) give(i, job, order[i].gpus - all[i]);
  }
  return all;
}

// By tenant: whether what it would borrow is within its limit.
std::vector<char> within_limit(const ClusterState& state, const std::vector<Holder>& order,
                               const std::vector<int>& own) {
  std::vector<int> borrowed(state.tenants.size());
  for (size_t i = 0; i < order.size(); ++i) borrowed[state.jobs[order[i].job].tenant] += order[i].gpus - own[i];
  std::vector<char> within;
  for (size_t i = 0; i < borrowed.size(); ++i) {
    const int limit = state.tenants[i].borrow_limit;
    within.push_back(limit == kNoLimit || borrowed[i] <= limit ? 1 : 0);
  }
  return within;
}

// By tenant, whether its idle jobs do without its quota. They may only as far as the limit leaves room for it: now, and
// also once those that were asked have gone, and guaranteed claims that were promised a place have made others of their
// tenant borrowed. Else an idle job would use up the room that a promise counted on.
std::vector<char> idle_pays(const ClusterState& state, const std::vector<Holder>& order, const std::vector<int>& own) {
  std::vector<Holder> later = order;
  for (Holder& holder : later) {
    const Job& job = state.jobs[holder.job];
    if (job.running && job.yields_to != kNobody) holder.gpus = job.yields_until_learners * job.gpus_per_learner;
    if (!job.running && job.tier == Tier::kGuaranteed) holder.gpus = job.min_learners * job.gpus_per_learner;
  }
  std::vector<char> pays = within_limit(state, order, own);
  const std::vector<char> then =
      within_limit(state, later, charges(state, later, std::vector<char>(state.tenants.size(), 1)));
  for (size_t i = 0; i < pays.size(); ++i) pays[i] = pays[i] != 0 && then[i] != 0 ? 1 : 0;
  return pays;
}

// A quick test whether no charge has to change, as is so in most decisions: every tenant is within its quota, and
// nothing of what it borrows would fit into the rest of that. False: it may have to. Precondition: no waiting claim was
// promised GPUs.
bool all_charged(const ClusterState& state) {
  if (!state.groups.empty()) return false;
  const size_t types = state.types.size();
  std::vector<int> own(state.tenants.size() * types);
  const auto at = [&](int tenant, int type) { return static_cast<size_t>(tenant) * types + static_cast<size_t>(type); };
  for (size_t i = state.first_running; i < state.jobs.size(); ++i) {
    const Job& job = state.jobs[i];
    if (!job.running) continue;
    const int gpus = job.gpus();
    const int mine = job.own_of(gpus);
    const bool odd = job.idle || (job.charge == Charge::kBorrowed && (mine == gpus || job.tier == Tier::kGuaranteed)) ||
                     (job.tier == Tier::kBorrow && mine > 0);
    if (odd) return false;
    own[at(job.tenant, state.type_held(job))] += mine;
  }
  std::vector<int> any;
  for (size_t i = 0; i < state.tenants.size(); ++i) {
    const GpuCounts& quota = state.tenants[i].quota;
    any.push_back(quota.any);
    for (int type = 0; type < state.type_count(); ++type)
      any.back() -= std::max(0, own[at(static_cast<int>(i), type)] - quota.of(type));
    if (any.back() < 0) return false;
  }
  for (size_t i = state.first_running; i < state.jobs.size(); ++i) {
    const Job& job = state.jobs[i];
    if (!job.running || job.charge == Charge::kOwn || job.tier == Tier::kBorrow) continue;
    const int type = state.type_held(job);
    if (any[job.tenant] > 0 || state.tenants[job.tenant].quota.of(type) > own[at(job.tenant, type)]) return false;
  }
  return true;
}

// As Job::own_of().
int own_of(const Move& charged, int gpus) {
  return charged.to == Charge::kOwn || charged.own_part > gpus ? gpus : charged.own_part;
}

}  // namespace

void carry_out(const Move& move, Job* job) {
  job->charge = move.to;
  job->own_part = move.own_part;
}

std::optional<Move> move_to(int index, const Job& job, int own_gpus) {
  return move_to(Move{index, job.charge, job.own_part}, job.gpus(), own_gpus);
}

std::optional<Move> move_to(const Move& so_far, int gpus, int own_gpus) {
  const Charge to = own_gpus == gpus ? Charge::kOwn : Charge::kBorrowed;
  if (to == so_far.to && own_gpus == own_of(so_far, gpus)) return std::nullopt;
  return Move{so_far.job, to, to == Charge::kOwn ? 0 : own_gpus};
}

ChargedBefore::ChargedBefore(const ClusterState& state, const std::vector<Move>& moves) : state_(state) {
  were_.reserve(moves.size());
  for (const Move& move : moves) {
    const Job& job = state.jobs[move.job];
    were_.push_back(Move{move.job, job.charge, job.own_part});
  }
}

Move ChargedBefore::of(int job) const {
  const auto was =
      std::lower_bound(were_.begin(), were_.end(), job, [](const Move& move, int wanted) { return move.job < wanted; });
  if (was != were_.end() && was->job == job) return *was;
  return Move{job, state_.jobs[job].charge, state_.jobs[job].own_part};
}

int ChargedBefore::own_of(int job, int gpus) const {
  return policy::own_of(of(job), gpus);
}

std::vector<Move> charge(const ClusterState& state) {
  // The only look at all that wait, who may be thousands.
  std::vector<int> promised;
  for (size_t i = 0; i < state.jobs.size(); ++i)
    if (const Job& job = state.jobs[i]; job.promised && job.charge == Charge::kOwn && !job.running)
      promised.push_back(static_cast<int>(i));
  if (promised.empty() && all_charged(state)) return {};
  const auto rank_of = [&](const Job& job) {
    if (job.running && job.tier == Tier::kGuaranteed) return 0;
    if (!job.running) return 2;
    if (job.charge == Charge::kOwn) return 1;
    return job.own_part > 0 ? 3 : 4;
  };
  struct Key {
    int rank;
    int64_t start_s, id;
    Holder holder;
  };
  std::vector<Key> keys;
  const auto add = [&](int index, int gpus) {
    const Job& job = state.jobs[index];
    keys.push_back(Key{rank_of(job), job.start_s, job.id, Holder{index, gpus}});
  };
  for (const int index : promised)
    if (state.jobs[index].tier != Tier::kBorrow) add(index, 0);
  for (size_t i = state.first_running; i < state.jobs.size(); ++i)
    if (state.jobs[i].running) add(static_cast<int>(i), state.jobs[i].gpus());
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
    return std::tie(a.rank, a.start_s, a.id) < std::tie(b.rank, b.start_s, b.id);
  });
  std::vector<Holder> order;
  order.reserve(keys.size());
  for (const Key& key : keys) order.push_back(key.holder);
  std::vector<int> to = charges(state, order, std::vector<char>(state.tenants.size(), 1));
  const bool idle =
      std::any_of(order.begin(), order.end(), [&](const Holder& holder) { return state.jobs[holder.job].idle; });
  if (idle) to = charges(state, order, idle_pays(state, order, to));
  std::vector<Move> moves;
  for (size_t i = 0; i < order.size(); ++i) {
    const Job& job = state.jobs[order[i].job];
    if (!job.running || (job.charge == Charge::kOwn && to[i] == order[i].gpus)) continue;
    if (const auto move = move_to(order[i].job, job, to[i])) moves.push_back(*move);
  }
  std::sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.job < b.job; });
  return moves;
}

}  // namespace dl::policy
