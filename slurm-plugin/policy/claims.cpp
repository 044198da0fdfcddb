// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/claims.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "slurm-plugin/policy/borrower_search.h"
#include "slurm-plugin/policy/joint.h"
#include "slurm-plugin/policy/placement.h"
#include "slurm-plugin/policy/space.h"

namespace dl::policy {
namespace {

// Who was asked to shrink, and has not gone yet, may be asked for more: it pauses anyway.
bool takes_back_from(const Job& job) {
  return job.running && job.charge == Charge::kBorrowed && job.pausable &&
         (job.yields_to == kNobody || job.yields_until_learners > 0);
}

class Claims {
 public:
  explicit Claims(Round* round)
      : round_(*round),
        space_(&round->free),
        so_far_{round->learners},
        before_{round->learners},
        planned_(round->state.jobs.size()),
        budget_(round->state.search_budget),
        borrowers_(round->state, space_, so_far_, planned_, takeable_, protected_, &budget_) {
    for (size_t i = 0; i < so_far_.left.size(); ++i) {
      const Job& job = round_.state.jobs[i];
      if (job.yields_to != kNobody) yielded_to_.insert(job.yields_to);
      if (!job.running) continue;
      if (job.yields_to != kNobody) {
        leaving_for_.insert(job.yields_to);
        so_far_.left[i] = job.yields_until_learners;
        space_.give_up(Space::When::kLater, job.parts, job.yields_until_learners, job.gpus_per_learner);
      }
      before_.left[i] = so_far_.left[i];
      if (takes_back_from(job)) (may_be_asked(job) ? takeable_ : protected_).push_back(static_cast<int>(i));
    }
  }

  void serve() {
    const std::vector<int> order = order_of_claims(round_.state, round_.queue);
    std::vector<char> done(round_.state.jobs.size());
    // First what was promised, so that nothing else is decided about it: at the smallest size, and larger where that is
    // left once the last of them has its own.
    smallest_ = true;
    serve_promised(order, &done);
    for (const size_t start : cut_short_) grow(&round_.decision.starts[start]);
    smallest_ = false;
    // A job that has waited too long for its tenant's quota is not passed by the tenant's smaller ones any more, but by
    // those that were promised a place.
    std::vector<char> head_waits(round_.state.tenants.size());
    for (const int index : order) {
      const Job& job = round_.state.jobs[index];
      if (is_promised(index) || head_waits[job.tenant] || !round_.users.allows(job)) continue;
      done[index] = claim(index) ? 1 : 0;
      if (!done[index] && round_.impatient(job) && could_be_own(round_.state, job)) head_waits[job.tenant] = 1;
    }
    for (int type = 0; type < round_.state.type_count(); ++type) take_together(type);
    round_.queue.erase(
        std::remove_if(round_.queue.begin(), round_.queue.end(), [&](int index) { return done[index] != 0; }),
        round_.queue.end());
  }

  const Displaced& displaced() const { return displaced_; }

 private:
  using When = OwnTenant::When;
  enum class From { kBorrowers, kOwnTenant };  // whom a claim takes back from

  // What a claim was promised, and nobody else gets until its turn.
  struct Aside {
    int index;
    int type;
    Space::Kept kept;
  };

  bool is_promised(int index) const {
    const Job& job = round_.state.jobs[index];
    return job.promised || yielded_to_.count(job.id) != 0;
  }

  // Who pauses already is not protected from giving up more.
  bool may_be_asked(const Job& job) const { return job.yields_to != kNobody || round_.old_enough(job); }

  void serve_promised(const std::vector<int>& order, std::vector<char>* done) {
    std::vector<Aside> asides;
    Ledger later = without_leaving();
    // Guaranteed ones last: they may need quota of jobs that are charged as borrowed once they start.
    for (const bool guaranteed : {false, true}) {
      for (const int index : order)
        if (is_promised(index) && round_.is_guaranteed(index) == guaranteed) set_aside(index, &later, &asides);
    }
    // The oldest has what is free first, of all that were promised GPUs of one node.
    for (const Aside& aside : asides) space_.release(aside.kept);
    for (const Aside& aside : asides) (*done)[aside.index] = start_where_promised(aside, &later) ? 1 : 0;
    for (Aside& aside : asides)
      if ((*done)[aside.index] == 0) aside.kept = keep(aside);
    for (const Aside& aside : asides)
      if ((*done)[aside.index] == 0) (*done)[aside.index] = start_promised(aside, &later) ? 1 : 0;
    for (const Aside& aside : asides) {
      if ((*done)[aside.index] != 0) continue;
      wait_promised(aside);
      (*done)[aside.index] = 1;
    }
    // Of these it is not known where they were promised a place, or it is not there any more.
    for (const int index : order) {
      if ((*done)[index] != 0 || !is_promised(index) || !round_.users.allows(round_.state.jobs[index])) continue;
      (*done)[index] = claim(index) ? 1 : 0;
    }
  }

  // What quotas will hold when those that were asked have gone.
  Ledger without_leaving() const {
    Ledger later = round_.ledger;
    for (size_t i = 0; i < so_far_.left.size(); ++i) {
      const Job& job = round_.state.jobs[i];
      if (!job.running || job.yields_to == kNobody) continue;
      const int gone = job.learners() - so_far_.left[i];
      later.add(job.tenant, round_.state.type_held(job), -gone * job.gpus_per_learner, job.charge);
    }
    return later;
  }

  void set_aside(int index, Ledger* later, std::vector<Aside>* asides) {
    const Job& job = round_.state.jobs[index];
    if (job.promised_parts.empty() || !round_.users.allows(job)) return;
    if (!space_.holds(Space::When::kLater, job.promised_parts, job.gpus_per_learner)) return;
    const int type = round_.state.nodes[job.promised_parts.front().node].type;
    if (!later->fits_own(job.tenant, type, round_.asked(index)) && !round_.is_guaranteed(index)) return;
    later->add(job.tenant, type, round_.asked(index), Charge::kOwn);
    hold_for(index, type, +1);
    asides->push_back(Aside{index, type, space_.keep(Space::When::kLater, job.promised_parts, job.gpus_per_learner)});
  }

  Space::Kept keep(const Aside& aside) {
    return space_.keep(Space::When::kLater, aside.kept.parts, aside.kept.gpus_per_learner);
  }

  bool start_where_promised(const Aside& aside, Ledger* later) {
    const Job& job = round_.state.jobs[aside.index];
    const int asked = round_.asked(aside.index);
    if (!space_.holds(Space::When::kNow, aside.kept.parts, job.gpus_per_learner) ||
        !round_.ledger.fits_own(job.tenant, aside.type, asked) || !later->fits_own(job.tenant, aside.type, 0))
      return false;
    hold_for(aside.index, aside.type, -1);
    if (job.elastic()) cut_short_.push_back(round_.decision.starts.size());
    start(aside.index, aside.type, aside.kept.parts);
    return true;
  }

  // On the GPUs that it was promised, or on others, but not at the cost of another's promise: of another type only what
  // quotas hold beside all of those.
  bool start_promised(const Aside& aside, Ledger* later) {
    const Job& job = round_.state.jobs[aside.index];
    const int asked = round_.asked(aside.index);
    space_.release(aside.kept);
    hold_for(aside.index, aside.type, -1);
    later->add(job.tenant, aside.type, -asked, Charge::kOwn);
    const auto allowed = [&](int type) { return type == aside.type || later->fits_own(job.tenant, type, asked); };
    const bool fits = later->fits_own(job.tenant, aside.type, asked);
    if ((fits && start_on_free(aside.index, allowed)) ||
        (round_.is_guaranteed(aside.index) && start_beside_own_tenant(aside.index, allowed))) {
      later->add(job.tenant, round_.decision.starts.back().type, asked, Charge::kOwn);
      return true;
    }
    later->add(job.tenant, aside.type, asked, Charge::kOwn);
    keep(aside);
    hold_for(aside.index, aside.type, +1);
    return false;
  }

  void wait_promised(const Aside& aside) {
    const Job& job = round_.state.jobs[aside.index];
    hold_for(aside.index, aside.type, -1);
    const bool fits = round_.ledger.fits_own(job.tenant, aside.type, round_.asked(aside.index));
    hold_quota(aside.index, aside.type);
    Waiting& waiting = round_.wait(aside.index, Reason::kVictimsLeaving);
    waiting.parts = aside.kept.parts;
    waiting.kept_for = true;
    waiting.free = round_.free.total(aside.type);
    waiting.within_tenant = !fits;
  }

  // Until it is decided whether the claim starts now: a guaranteed one leaves to others of its tenant what is promised.
  void hold_for(int index, int type, int sign) {
    const Job& job = round_.state.jobs[index];
    round_.users.hold(job, sign * round_.asked(index));
    if (!round_.is_guaranteed(index)) round_.own_tenant.hold(When::kNow, job.tenant, type, sign * round_.asked(index));
  }

  // A claim that waits will be its tenant's own. Guaranteed ones do not take the quota from it before it runs.
  void hold_quota(int index, int type) {
    const Job& job = round_.state.jobs[index];
    round_.ledger.add(job.tenant, type, round_.asked(index), Charge::kOwn);
    if (round_.is_guaranteed(index))
      keep_out(round_.own_tenant.displaced(When::kLater, job.tenant, type, round_.asked(index), so_far_.left));
    const When when = round_.is_guaranteed(index) ? When::kLater : When::kNow;
    round_.own_tenant.hold(when, job.tenant, type, round_.asked(index));
  }

  bool fits_quota(const Job& job) const {
    for (int type = 0; type < round_.state.type_count(); ++type)
      if (may_use(job, type) && learners_for(job, round_.ledger.own_left(job.tenant, type)) > 0) return true;
    return false;
  }

  // What leaves for a claim is meant for it; it does not take another place meanwhile unless it finds one whole.
  template <typename Allowed>
  bool start_on_free(int index, Allowed allowed) {
    const Job& job = round_.state.jobs[index];
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type) || !allowed(type)) continue;
      const int most = learners_for(job, round_.ledger.own_left(job.tenant, type));
      const int possible =
          std::min({most, round_.users.most_learners(job), round_.free.slots(type, job.gpus_per_learner)});
      const int learners = smallest_ ? std::min(possible, job.min_learners) : possible;
      if (learners < job.min_learners) continue;
      auto parts = place(job.placement, round_.free, type, job.gpus_per_learner, learners);
      if (!parts) continue;
      if (learners < possible) cut_short_.push_back(round_.decision.starts.size());
      start(index, type, std::move(*parts));
      return true;
    }
    return false;
  }

  // A pending job that fits its tenant's quota on some type. False: it does not, and may be lent to.
  bool claim(int index) {
    const Job& job = round_.state.jobs[index];
    const auto any = [](int) { return true; };
    if (start_on_free(index, any)) return true;
    const bool fits = fits_quota(job);
    if (fits && take_back(index, From::kBorrowers)) return true;
    const bool firm = round_.is_guaranteed(index) && could_hold(job);
    if (firm && (start_beside_own_tenant(index, any) || take_back(index, From::kOwnTenant))) return true;
    // Victims have been asked for it, and have not gone yet.
    if (!(fits || firm) || leaving_for_.count(job.id) == 0) return false;
    round_.wait(index, Reason::kVictimsLeaving).within_tenant = !fits;
    return true;
  }

  void start(int index, int type, std::vector<Part> parts) {
    space_.started(parts, round_.state.jobs[index].gpus_per_learner);
    round_.start(index, Charge::kOwn, type, std::move(parts));
  }

  // An elastic claim that starts at its smallest size gets what nobody was promised.
  void grow(Start* start) {
    const Job& job = round_.state.jobs[start->job];
    FreeGpus free = round_.free;
    free.give(start->parts, job.gpus_per_learner);
    const int left = round_.ledger.own_left(job.tenant, start->type) / job.gpus_per_learner;
    const int learners = std::min({job.max_learners, job.min_learners + std::min(left, round_.users.room(job)),
                                   free.slots(start->type, job.gpus_per_learner)});
    if (learners <= job.min_learners) return;
    auto parts = place(job.placement, free, start->type, job.gpus_per_learner, learners);
    if (!parts) return;
    space_.ended(start->parts, job.gpus_per_learner);
    space_.started(*parts, job.gpus_per_learner);
    round_.replace(start, std::move(*parts));
  }

  bool could_hold(const Job& job) const {
    const int gpus = job.min_learners * job.gpus_per_learner;
    for (int type = 0; type < round_.state.type_count(); ++type)
      if (may_use(job, type) && round_.own_tenant.could_hold(job.tenant, type, gpus)) return true;
    return false;
  }

  // Starts a guaranteed job on free GPUs that could be lent: jobs of its tenant are charged as borrowed instead.
  template <typename Allowed>
  bool start_beside_own_tenant(int index, Allowed allowed) {
    const Job& job = round_.state.jobs[index];
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type) || !allowed(type) || !round_.own_tenant.could_hold(job.tenant, type, round_.asked(index)))
        continue;
      if (round_.free.slots(type, job.gpus_per_learner) < job.min_learners) continue;
      const std::vector<int> now =
          round_.own_tenant.displaced(When::kNow, job.tenant, type, round_.asked(index), round_.learners);
      std::vector<int> moved =
          round_.own_tenant.displaced(When::kLater, job.tenant, type, round_.asked(index), round_.learners);
      for (const int other : round_.own_tenant.to_be_recharged(job.tenant)) moved.push_back(other);
      for (const int other : now)
        if (std::find(moved.begin(), moved.end(), other) == moved.end()) moved.push_back(other);
      if (!round_.own_tenant.all_borrowed_so_far(moved) &&
          !(round_.ledger.within_borrow_limit(job.tenant, round_.own_tenant.gpus_of(moved, round_.learners)) &&
            (job.promised || round_.own_tenant.lent_beside(round_.ledger, job, type, moved, so_far_.left))))
        continue;
      auto parts = place(job.placement, round_.free, type, job.gpus_per_learner, job.min_learners);
      if (!parts) continue;
      keep_out(moved);
      recharge(now);
      start(index, type, std::move(*parts));
      return true;
    }
    return false;
  }

  void keep_out(const std::vector<int>& jobs) {
    round_.own_tenant.displace(When::kLater, jobs);
    displaced_.kept_out.insert(displaced_.kept_out.end(), jobs.begin(), jobs.end());
  }

  // Own so far, and borrowed from now on: whoever may take back borrowed GPUs may take these.
  void recharge(const std::vector<int>& jobs) {
    round_.own_tenant.displace(When::kNow, jobs);
    for (const int index : jobs) {
      const Job& job = round_.state.jobs[index];
      const int type = round_.state.type_held(job);
      round_.ledger.add(job.tenant, type, -job.gpus(), Charge::kOwn);
      round_.ledger.add(job.tenant, type, job.gpus(), Charge::kBorrowed);
      displaced_.now.push_back(index);
      if (!job.pausable || so_far_.left[index] == 0) continue;
      std::vector<int>& list = may_be_asked(job) ? takeable_ : protected_;
      list.insert(std::lower_bound(list.begin(), list.end(), index), index);
    }
    for (auto& jobs_without_hope : hopeless_) jobs_without_hope.clear();
    borrowers_.changed();
  }

  // The claim finds no free place: it takes back, or waits for those it may take from later. False if no set of victims
  // would help: then it may be lent to like anybody else, should a place turn up.
  bool take_back(int index, From from) {
    const Job& job = round_.state.jobs[index];
    if (known_hopeless(job, from)) return false;
    if (std::optional<Found> found = cheapest(index, Space::When::kLater, from)) {
      Waiting& waiting = round_.wait(index, Reason::kVictimsLeaving);
      Space::Kept kept = commit(index, *found, Space::When::kLater);
      waiting.parts = kept.parts;
      waiting.kept_for = true;
      waiting.free = round_.free.total(found->type);
      waiting.within_tenant = from == From::kOwnTenant;
      if (from == From::kBorrowers && !is_promised(index))
        taken_.push_back(Taken{index, found->type, std::move(kept), found->set});
      if (!found->set.victims.empty())
        round_.decision.reclaims.push_back(Reclaim{index, found->type, waiting.parts, std::move(found->set)});
      return true;
    }
    if (wait_for_protected(index, from)) return true;
    int& least = hopeless_[static_cast<size_t>(from)][kind_of(job)];
    least = least == 0 ? job.min_learners : std::min(least, job.min_learners);
    return false;
  }

  // Tenant, type, size of a learner.
  static std::array<int, 3> kind_of(const Job& job) { return {job.tenant, job.type, job.gpus_per_learner}; }

  // Free GPUs and borrowers only become fewer in one decision: what found no place is not tried again for a like job.
  bool known_hopeless(const Job& job, From from) const {
    const auto& hopeless = hopeless_[static_cast<size_t>(from)];
    const auto found = hopeless.find(kind_of(job));
    return found != hopeless.end() && found->second <= job.min_learners;
  }

  struct Found {
    int type;
    VictimSet set;
  };

  std::optional<Found> cheapest(int index, Space::When when, From from) {
    const FreeGpus& room = space_.at(when);
    const bool also_protected = when == Space::When::kLast;
    const Job& job = round_.state.jobs[index];
    if (from == From::kBorrowers) {
      return cheapest_of_types(job, [&](int type) -> std::optional<VictimSet> {
        if (learners_for(job, round_.ledger.own_left(job.tenant, type)) == 0) return std::nullopt;
        return borrowers_.find(round_.state.jobs[index], type, when);
      });
    }
    std::vector<int> own;
    for (const int other : round_.own_tenant.may_yield(job.tenant))
      if (so_far_.left[other] > 0 &&
          (also_protected || (planned_[other] == 0 && may_be_asked(round_.state.jobs[other]))))
        own.push_back(other);
    const auto among = [&](const std::vector<int>& candidates, bool beside_borrowers) {
      return cheapest_of_types(job, [&](int type) -> std::optional<VictimSet> {
        if (!round_.own_tenant.could_hold(job.tenant, type, round_.asked(index))) return std::nullopt;
        return find_allowed_victims(
            round_.state, room, type, job.gpus_per_learner, job.min_learners, candidates, own, &budget_, so_far_,
            [&](const auto& victims) { return leave_quota(index, type, victims, beside_borrowers); });
      });
    };
    // Others give way only as far as the tenant, with this job, stays within its quota.
    if (auto found = among(own, true)) return found;
    std::vector<int> both;
    const std::vector<int> others = borrowers_.all(when);
    std::set_union(others.begin(), others.end(), own.begin(), own.end(), std::back_inserter(both));
    return among(both, false);
  }

  template <typename Search>
  std::optional<Found> cheapest_of_types(const Job& job, Search search) const {
    std::optional<Found> best;
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type)) continue;
      auto set = search(type);
      if (set && (!best || less_loss(*set, best->set))) best = Found{type, std::move(*set)};
    }
    return best;
  }

  // With the victims gone, does the quota hold the guaranteed job, once those of its tenant that are left over are
  // charged as borrowed, if they may be?
  bool leave_quota(int index, int type, const std::vector<Victim>& victims, bool may_recharge) {
    // For so long as it is asked; a copy would be as long as the list of jobs, for each of thousands of claims.
    std::vector<int> had;
    for (const Victim& victim : victims) had.push_back(std::exchange(so_far_.left[victim.job], victim.learners_left));
    const bool leaves = quota_holds(index, type, may_recharge);
    for (size_t i = victims.size(); i-- > 0;) so_far_.left[victims[i].job] = had[i];
    return leaves;
  }

  bool quota_holds(int index, int type, bool may_recharge) const {
    const Job& job = round_.state.jobs[index];
    const std::vector<int>& left = so_far_.left;
    const std::vector<int> moved =
        round_.own_tenant.displaced(When::kLater, job.tenant, type, round_.asked(index), left);
    const std::vector<int> waiting = round_.own_tenant.to_be_recharged(job.tenant);
    if (moved.empty() && waiting.empty()) return true;
    if (!may_recharge) return false;
    if (round_.own_tenant.all_borrowed_so_far(moved) && round_.own_tenant.all_borrowed_so_far(waiting)) return true;
    const int limit = round_.state.tenants[job.tenant].borrow_limit;
    if (limit != kNoLimit) {
      int borrowed = round_.own_tenant.gpus_of(moved, left) + round_.own_tenant.gpus_of(waiting, left);
      for (size_t i = 0; i < round_.state.jobs.size(); ++i) {
        const Job& other = round_.state.jobs[i];
        if (!other.running || other.tenant != job.tenant) continue;
        if (other.charge == Charge::kBorrowed || round_.own_tenant.recharged(static_cast<int>(i)))
          borrowed += left[i] * other.gpus_per_learner;
      }
      if (borrowed > limit) return false;
    }
    // What was promised while it could be lent stays so.
    return job.promised || round_.own_tenant.lent_beside(round_.ledger, job, type, moved, left);
  }

  // The claim's place is decided, and kept. The victims stay in the ledger until they have gone, so that their tenant
  // does not borrow more than it may meanwhile. Who was promised a place stays there, if it holds still.
  Space::Kept commit(int index, const Found& found, Space::When when) {
    const Job& job = round_.state.jobs[index];
    for (const Victim& victim : found.set.victims) {
      ask(victim, when);
      if (when == Space::When::kLast) planned_[victim.job] = 1;
    }
    hold_quota(index, found.type);
    const std::vector<Part>& promised = job.promised_parts;
    const bool stays = !promised.empty() && round_.state.nodes[promised.front().node].type == found.type &&
                       space_.holds(when, promised, job.gpus_per_learner);
    auto parts = stays ? std::optional(promised)
                       : place(job.placement, space_.at(when), found.type, job.gpus_per_learner, job.min_learners);
    if (!parts) return {};  // cannot be: the victims were chosen so that it fits
    return space_.keep(when, std::move(*parts), job.gpus_per_learner);
  }

  // The claims of one type that take back from borrowers now, all of them together (joint.h). Left as they are where
  // other claims have victims too, which were chosen beside theirs.
  void take_together(int type) {
    std::vector<Taken> claims;
    std::set<int> claimants;
    for (const Taken& claim : taken_) {
      if (claim.type != type) continue;
      claims.push_back(claim);
      claimants.insert(claim.job);
      for (const Victim& victim : claim.set.victims)
        if (planned_[victim.job] != 0) return;
    }
    std::vector<Reclaim>& reclaims = round_.decision.reclaims;
    for (const Reclaim& reclaim : reclaims)
      if (reclaim.type == type && claimants.count(reclaim.claimant) == 0) return;
    std::vector<int> candidates;
    for (const int other : borrowers_.all(Space::When::kLater))
      if (round_.state.type_held(round_.state.jobs[other]) == type) candidates.push_back(other);
    const auto found = take_jointly(round_.state, space_, claims, candidates, before_, round_.state.search_budget);
    if (!found) return;
    for (const Taken& claim : claims) {
      space_.release(claim.kept);
      for (const Victim& victim : claim.set.victims) take_up(victim.job);
    }
    reclaims.erase(std::remove_if(reclaims.begin(), reclaims.end(),
                                  [&](const Reclaim& reclaim) { return claimants.count(reclaim.claimant) != 0; }),
                   reclaims.end());
    const size_t starts = round_.decision.starts.size();
    for (const Taken& claim : *found) {
      for (const Victim& victim : claim.set.victims) ask(victim, Space::When::kLater);
      if (!claim.now) space_.keep(Space::When::kLater, claim.kept.parts, claim.kept.gpus_per_learner);
      if (claim.now) start_after_all(claim);
      if (!claim.set.victims.empty()) reclaims.push_back(Reclaim{claim.job, type, claim.kept.parts, claim.set});
    }
    for (size_t i = starts; i < round_.decision.starts.size(); ++i) grow(&round_.decision.starts[i]);
    for (Waiting& waiting : round_.decision.waiting) {
      if (claimants.count(waiting.job) == 0) continue;
      const auto claim =
          std::find_if(found->begin(), found->end(), [&](const Taken& one) { return one.job == waiting.job; });
      waiting.parts = claim->kept.parts;
      waiting.free = round_.free.total(type);
    }
  }

  // It was to wait.
  void start_after_all(const Taken& claim) {
    const Job& job = round_.state.jobs[claim.job];
    std::vector<Waiting>& waiting = round_.decision.waiting;
    waiting.erase(
        std::find_if(waiting.begin(), waiting.end(), [&](const Waiting& one) { return one.job == claim.job; }));
    const int asked = round_.asked(claim.job);
    round_.users.hold(job, -asked);
    round_.ledger.add(job.tenant, claim.type, -asked, Charge::kOwn);
    round_.own_tenant.hold(round_.is_guaranteed(claim.job) ? When::kLater : When::kNow, job.tenant, claim.type, -asked);
    start(claim.job, claim.type, claim.kept.parts);
  }

  void ask(const Victim& victim, Space::When when) {
    const Job& gone = round_.state.jobs[victim.job];
    int& left = so_far_.left[victim.job];
    space_.give_up(when, parts_after_shrink(gone.parts, left), victim.learners_left, gone.gpus_per_learner);
    left = victim.learners_left;
  }
  // It keeps what it had before any of the claims that are looked at together.
  void take_up(int index) {
    const Job& job = round_.state.jobs[index];
    space_.ended(parts_after_shrink(job.parts, so_far_.left[index]), job.gpus_per_learner);
    so_far_.left[index] = before_.left[index];
    space_.started(parts_after_shrink(job.parts, so_far_.left[index]), job.gpus_per_learner);
  }

  bool wait_for_protected(int index, From from) {
    if (protected_.empty() && from == From::kBorrowers) return false;
    const std::optional<Found> found = cheapest(index, Space::When::kLast, from);
    if (!found) return false;
    int64_t seconds = 0;
    for (const Victim& victim : found->set.victims) {
      const Job& other = round_.state.jobs[victim.job];
      seconds = std::max(seconds, other.start_s + other.min_run_s - round_.state.now_s);
    }
    Waiting& waiting = round_.wait(index, Reason::kVictimsProtected);
    waiting.parts = commit(index, *found, Space::When::kLast).parts;
    waiting.seconds = seconds;
    waiting.kept_for = true;
    waiting.within_tenant = from == From::kOwnTenant;
    waiting.free = round_.free.total(found->type);
    return true;
  }

  Round& round_;
  Space space_;
  SoFar so_far_;
  SoFar before_;                   // as it was before this decision
  std::vector<Taken> taken_;       // from borrowers, by claims that were promised nothing before
  std::vector<int> takeable_;      // borrowers that may be asked to yield now, by job
  std::vector<int> protected_;     // borrowers that may be later
  std::vector<char> planned_;      // by job that runs: it will be asked when others are not protected any more
  std::set<int64_t> yielded_to_;   // ids of those for which jobs have been asked to yield
  std::set<int64_t> leaving_for_;  // and have not gone yet
  // Claims that no set of victims could help, by whose they are: the fewest learners.
  std::map<std::array<int, 3>, int> hopeless_[2];
  Displaced displaced_;
  bool smallest_ = false;          // the promised claims are served: elastic ones start at their smallest size
  std::vector<size_t> cut_short_;  // those of the decision's starts, to grow once all of these are served
  int budget_;
  BorrowerSearch borrowers_;
};

}  // namespace

Displaced serve_claims(Round* round) {
  Claims claims(round);
  claims.serve();
  return claims.displaced();
}

}  // namespace dl::policy
