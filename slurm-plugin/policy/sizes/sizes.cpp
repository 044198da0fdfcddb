// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/sizes/sizes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policy/sizes/one_tenant.h"
#include "slurm-plugin/policy/user_limits.h"

namespace dl::policy {
namespace {

bool can_use(const Job& job, int type) {
  return job.type == kAnyType || job.type == type;
}

bool rested(const ClusterState& state, const Job& job, const SizeOptions& options) {
  return std::max<int64_t>(0, state.now_s - job.start_s) >= rest_s(state, job, options);
}

bool may_vary(const Job& job) {
  return job.elastic() && job.tier == Tier::kAuto && job.pausable && !job.idle && job.yields_to == kNobody &&
         !job.promised;
}

class Divide {
 public:
  Divide(const ClusterState& state, const std::vector<JobSpeeds>& speeds, const SizeOptions& options)
      : state_(state), options_(options), known_(state.jobs.size()), tenants_(state.tenants.size()) {
    for (const JobSpeeds& one : speeds) known_[one.job] = &one;
    answer_.decision = decide(state);
  }

  Sizes run() && {
    find_busy_tenants();
    add_those_that_run();
    add_those_that_start();
    if (!some_) return std::move(answer_);
    after_ = state_;
    for (const Move& move : answer_.decision.moves) carry_out(move, &after_.jobs[move.job]);
    for (const Start& start : answer_.decision.starts) begin(start);
    for (const Waiting& one : answer_.decision.waiting) promise(one);
    // Starts and promises change how the jobs beside them are charged.
    for (const Move& move : charge(after_)) carry_out(move, &after_.jobs[move.job]);
    add_those_that_wait();
    find_wanted_types();
    for (TenantSizes& tenant : tenants_) count(&tenant);
    give_what_is_free();
    propose_all(false);
    // Almost never: with quota that groups own, what one tenant gets as own may be what another held as own.
    if (!allowed()) propose_all(true);
    drop_from_decision();
    return std::move(answer_);
  }

 private:
  // For whom others leave, or will: until then its jobs are charged otherwise than they will be.
  void find_busy_tenants() {
    busy_.assign(state_.tenants.size(), 0);
    for (const Waiting& one : answer_.decision.waiting)
      if (one.reason == Reason::kVictimsLeaving || one.reason == Reason::kVictimsProtected)
        busy_[state_.jobs[one.job].tenant] = 1;
  }

  bool may_take_part(const Job& job) const { return busy_[job.tenant] == 0 && may_vary(job); }

  // Nothing is said of a job whose present size has no speed.
  const JobSpeeds* known_at(int job, int type, int learners) const {
    const JobSpeeds* known = known_[job];
    if (known == nullptr) return nullptr;
    const bool running = state_.jobs[job].running;
    const bool found = std::any_of(known->speeds.begin(), known->speeds.end(), [&](const SizeSpeed& speed) {
      return speed.type == type && speed.learners == learners && (!running || speed.batch == known->batch);
    });
    return found ? known : nullptr;
  }

  void add(int job, bool running, int type, const std::vector<Part>& parts) {
    const JobSpeeds* known = known_at(job, type, learners_of(parts));
    if (known == nullptr) return;
    tenants_[state_.jobs[job].tenant].members.push_back({job, known, running, !running, type, parts});
    some_ = true;
  }

  void add_those_that_run() {
    std::vector<char> victim(state_.jobs.size());
    for (const Reclaim& reclaim : answer_.decision.reclaims)
      for (const Victim& one : reclaim.set.victims) victim[one.job] = 1;
    for (size_t i = state_.first_running; i < state_.jobs.size(); ++i) {
      const Job& job = state_.jobs[i];
      if (!job.running || job.parts.empty() || victim[i] != 0 || !may_take_part(job)) continue;
      if (!rested(state_, job, options_)) continue;
      add(static_cast<int>(i), true, state_.type_held(job), job.parts);
    }
  }

  void add_those_that_start() {
    for (const Start& start : answer_.decision.starts)
      if (may_take_part(state_.jobs[start.job])) add(start.job, false, start.type, start.parts);
  }

  void begin(const Start& start) {
    Job& job = after_.jobs[start.job];
    job.running = true;
    job.charge = start.charge;
    job.own_part = start.own_part;
    job.parts = start.parts;
    after_.first_running = 0;
  }

  void promise(const Waiting& waiting) {
    Job& job = after_.jobs[waiting.job];
    job.promised = waiting.reason == Reason::kVictimsLeaving;
    job.charge = waiting.lent ? Charge::kBorrowed : Charge::kOwn;
    job.promised_parts = job.promised ? waiting.parts : std::vector<Part>{};
  }

  // Jobs of the same tenants that could start on what these give up, in the order of their queues.
  void add_those_that_wait() {
    std::vector<int> waiting;
    for (const Waiting& one : answer_.decision.waiting) {
      const Job& job = state_.jobs[one.job];
      const bool place_alone = one.reason == Reason::kNoPlace || one.reason == Reason::kBorrowLimit;
      if (!place_alone || one.kept_for || !one.parts.empty() || one.reserved_for >= 0) continue;
      if (job.tier != Tier::kAuto || job.promised || job.yields_to != kNobody) continue;
      if (!tenants_[job.tenant].members.empty()) waiting.push_back(one.job);
    }
    std::sort(waiting.begin(), waiting.end(), [&](int a, int b) {
      const Job& x = state_.jobs[a];
      const Job& y = state_.jobs[b];
      return std::tie(x.nice, x.submit_s, x.id) < std::tie(y.nice, y.submit_s, y.id);
    });
    for (const int job : waiting)
      tenants_[state_.jobs[job].tenant].members.push_back({job, known_[job], false, false, kAnyType, {}});
  }

  // Types that somebody waits for, who is not held back by a limit of his own.
  void find_wanted_types() {
    wanted_.assign(state_.types.size(), 0);
    for (const Waiting& one : answer_.decision.waiting) {
      if (one.reason == Reason::kQuota || one.reason == Reason::kBorrowLimit || one.reason == Reason::kUserLimit)
        continue;
      for (int type = 0; type < state_.type_count(); ++type)
        if (can_use(state_.jobs[one.job], type)) wanted_[type] = 1;
    }
  }

  void count(TenantSizes* tenant) const {
    tenant->gpus.assign(state_.types.size(), 0);
    for (const Member& member : tenant->members)
      if (!member.parts.empty())
        tenant->gpus[member.type] += learners_of(member.parts) * state_.jobs[member.job].gpus_per_learner;
  }

  void give_what_is_free() {
    Ledger ledger(after_);
    const FreeGpus free(after_);
    for (int type = 0; type < state_.type_count(); ++type) {
      if (wanted_[type] != 0) continue;
      std::vector<int> wish(tenants_.size());
      for (size_t i = 0; i < tenants_.size(); ++i)
        for (const Member& member : tenants_[i].members)
          if (member.type == type)
            wish[i] += (state_.jobs[member.job].max_learners - learners_of(member.parts)) *
                       state_.jobs[member.job].gpus_per_learner;
      for (int left = free.total(type); left > 0; --left)
        if (!give_one(type, &wish, &ledger)) break;
    }
  }

  // To the tenant whose turn it is.
  bool give_one(int type, std::vector<int>* wish, Ledger* ledger) {
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < wish->size(); ++i) {
      const int tenant = static_cast<int>(i);
      if ((*wish)[i] <= 0) continue;
      const bool own = ledger->own_left(tenant, type) > 0;
      if (!own && !(ledger->within_borrow_limit(tenant, 1) && ledger->lendable(type, 1))) {
        (*wish)[i] = 0;
        continue;
      }
      const double key = own ? -1 : fair_key(after_, *ledger, tenant, state_.weight_of_type(type) / 2);
      if (best >= 0 && key >= least) continue;
      best = tenant;
      least = key;
    }
    if (best < 0) return false;
    const bool own = ledger->own_left(best, type) > 0;
    ledger->add(best, type, 1, own ? Charge::kOwn : Charge::kBorrowed);
    ++tenants_[best].gpus[type];
    --(*wish)[best];
    return true;
  }

  void propose_all(bool check_each) {
    answer_.resizes.clear();
    FreeGpus free(after_);
    for (size_t i = 0; i < state_.nodes.size(); ++i)
      if (wanted_[state_.nodes[i].type] != 0) free.add(static_cast<int>(i), -free.on(static_cast<int>(i)));
    for (const TenantSizes& tenant : tenants_) {
      const FreeGpus before = free;
      const size_t count = answer_.resizes.size();
      propose(tenant, &free);
      if (!check_each || answer_.resizes.size() == count || allowed()) continue;
      answer_.resizes.resize(count);
      free = before;
    }
  }

  void propose(const TenantSizes& tenant, FreeGpus* free) {
    const bool elastic = std::any_of(tenant.members.begin(), tenant.members.end(),
                                     [](const Member& member) { return member.speeds != nullptr; });
    if (!elastic) return;
    FreeGpus room = *free;
    std::vector<Resize> resizes = sizes_of(state_, tenant, options_, &room);
    if (!within_user_limits(resizes)) return;
    *free = std::move(room);
    answer_.resizes.insert(answer_.resizes.end(), resizes.begin(), resizes.end());
  }

  // Nobody comes to borrow more than he may, or than others lend.
  bool allowed() const {
    if (answer_.resizes.empty()) return true;
    ClusterState then = after_;
    for (const Resize& resize : answer_.resizes) {
      Job& job = then.jobs[resize.job];
      if (!job.running) job.charge = Charge::kBorrowed;
      job.running = true;
      job.parts = resize.parts;
    }
    for (const Move& move : charge(then)) carry_out(move, &then.jobs[move.job]);
    const Ledger before(after_);
    const Ledger ledger(then);
    for (size_t i = 0; i < state_.tenants.size(); ++i) {
      const int tenant = static_cast<int>(i);
      if (ledger.borrowed(tenant) > before.borrowed(tenant) && !ledger.within_borrow_limit(tenant, 0)) return false;
      for (int type = 0; type < state_.type_count(); ++type)
        if (ledger.borrowed(tenant, type) > before.borrowed(tenant, type) && !ledger.lendable(type, 0)) return false;
    }
    return true;
  }

  bool within_user_limits(const std::vector<Resize>& resizes) const {
    UserLimits users(after_);
    for (const Resize& resize : resizes) {
      const Job& job = after_.jobs[resize.job];
      const int before = job.running ? job.gpus() : 0;
      users.hold(job, learners_of(resize.parts) * job.gpus_per_learner - before);
    }
    return std::all_of(resizes.begin(), resizes.end(), [&](const Resize& resize) {
      const Job& job = after_.jobs[resize.job];
      return !users.concerns(job) || users.held(job) <= users.limit(job) || learners_of(resize.parts) <= job.learners();
    });
  }

  void drop_from_decision() {
    std::sort(answer_.resizes.begin(), answer_.resizes.end(),
              [](const Resize& a, const Resize& b) { return a.job < b.job; });
    std::vector<char> starts(state_.jobs.size());
    for (const Resize& resize : answer_.resizes)
      if (resize.starts) starts[resize.job] = 1;
    const auto drop = [&](auto* list) {
      list->erase(std::remove_if(list->begin(), list->end(), [&](const auto& one) { return starts[one.job] != 0; }),
                  list->end());
    };
    drop(&answer_.decision.starts);
    drop(&answer_.decision.waiting);
  }

  const ClusterState& state_;
  const SizeOptions& options_;
  std::vector<const JobSpeeds*> known_;  // by job
  std::vector<TenantSizes> tenants_;
  std::vector<char> busy_;    // by tenant
  std::vector<char> wanted_;  // by type
  ClusterState after_;        // with the decision's moves, starts and promises
  bool some_ = false;         // job's size can be chosen
  Sizes answer_;
};

Error wrong(int job, const std::string& what, double value, const std::string& allowed) {
  return Error{Errc::kInvalid, fmt::format("{} of job {} is {}; allowed: {}", what, job, value, allowed)};
}

Status check_speed(const ClusterState& state, int job, const SizeSpeed& speed) {
  const auto between = [](double value, double low, double high) {
    return std::isfinite(value) && value >= low && value <= high;
  };
  if (speed.type < 0 || speed.type >= state.type_count())
    return wrong(job, "the GPU type of a speed", speed.type, fmt::format("0 to {}", state.type_count() - 1));
  if (speed.learners < 1 || speed.learners > elastic::kMostGpusOfPoint)
    return wrong(job, "the number of learners of a speed", speed.learners, "1 to 1,000,000");
  if (speed.nodes < 1 || speed.nodes > speed.learners)
    return wrong(job, "the number of nodes of a speed", speed.nodes, "1 to its learners");
  if (speed.batch < 0) return wrong(job, "the batch of a speed", static_cast<double>(speed.batch), "0 or more");
  if (!between(speed.speed, 1e-12, elastic::kMostValue))
    return wrong(job, "a speed", speed.speed, "more than 0, to 1e12");
  return {};
}

}  // namespace

Status check(const ClusterState& state, const std::vector<JobSpeeds>& speeds) {
  for (const JobSpeeds& one : speeds) {
    if (one.job < 0 || one.job >= static_cast<int>(state.jobs.size()))
      return Error{Errc::kInvalid, fmt::format("speeds are of job {}, which is not one of the state", one.job)};
    if (one.speeds.size() > static_cast<size_t>(elastic::kMostPointsOfJob))
      return wrong(one.job, "the number of speeds", static_cast<double>(one.speeds.size()),
                   fmt::format("at most {}", elastic::kMostPointsOfJob));
    for (const SizeSpeed& speed : one.speeds) DL_TRY(check_speed(state, one.job, speed));
    const std::pair<const char*, double> times[] = {{"the age", one.age_s}, {"the time left", one.left_s}};
    for (const auto& [what, value] : times)
      if (!std::isfinite(value) || value < 0 || value > elastic::kMostValue)
        return wrong(one.job, what, value, "0 to 1e12 seconds");
    if (!std::isfinite(one.weight) || one.weight < 1e-12 || one.weight > elastic::kMostValue)
      return wrong(one.job, "the weight", one.weight, "more than 0, to 1e12");
    if (one.restarts < 0) return wrong(one.job, "the number of restarts", one.restarts, "0 or more");
  }
  return {};
}

int64_t rest_s(const ClusterState& state, const Job& job, const SizeOptions& options) {
  const int64_t protects_s = job.start_s <= state.now_s ? job.min_run_s : 0;  // a start ahead of the clock does not
  if (options.each_s == 0) return protects_s;
  return std::max({protects_s, options.each_s, kTimesCost * std::min(job.restart_s, state.most_restart_s)});
}

bool any_size_is_open(const ClusterState& state, const std::vector<JobSpeeds>& speeds, const SizeOptions& options) {
  return std::any_of(speeds.begin(), speeds.end(), [&](const JobSpeeds& known) {
    const Job& job = state.jobs[known.job];
    return may_vary(job) && (!job.running || rested(state, job, options));
  });
}

Sizes decide_sizes(const ClusterState& state, const std::vector<JobSpeeds>& speeds, const SizeOptions& options) {
  if (!state.nodes_known) return {decide(state), {}};
  return Divide(state, speeds, options).run();
}

}  // namespace dl::policy
