// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/turn_orders.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace dl::policy::in_turns {

Orders::Orders(const ClusterState& state, const std::vector<Taken>& claims, const Candidates& candidates,
               bool some_protected, Rooms* rooms, TurnQuotas* quotas, int64_t* steps)
    : state_(state),
      claims_(claims),
      candidates_(candidates.all),
      some_protected_(some_protected),
      rooms_(*rooms),
      quotas_(*quotas),
      steps_(*steps),
      // They look at all jobs of a tenant, several times.
      steps_of_quotas_(8 + static_cast<int64_t>(state.jobs.size() / 8)) {
  for (const Candidate& candidate : candidates_) had_.push_back(candidate.has);
}

bool Orders::any(const Tried& tried, const Found& found) {
  tried_ = &tried;
  found_ = &found;
  left_ = had_;
  which_.assign(state_.types.size(), 0);
  turns_.clear();
  return serve_rest(0, 0);
}

// `served`: a bit for each claim that had its turn; `given`: for each of those chosen that yields to one of these.
bool Orders::serve_rest(unsigned served, unsigned given) {
  if (turns_.size() == claims_.size()) return given == (1U << tried_->chosen.size()) - 1 && (*found_)(turns_);
  for (size_t claim = 0; claim < claims_.size() && steps_ > 0; ++claim) {
    if ((served >> claim & 1U) != 0 || like_an_earlier_one(served, claim)) continue;
    if (serve(claim, served, given)) return true;
  }
  return false;
}

// Then it need not be tried in that one's turn.
bool Orders::like_an_earlier_one(unsigned served, size_t claim) const {
  const auto kind = [&](size_t which) {
    const Job& job = job_of(which);
    return std::make_tuple(job.tenant, job.tier, job.type, job.gpus_per_learner, job.min_learners, tried_->types[which],
                           claims_[which].within);
  };
  for (size_t earlier = 0; earlier < claim; ++earlier)
    if ((served >> earlier & 1U) == 0 && kind(earlier) == kind(claim)) return true;
  return false;
}

bool Orders::serve(size_t claim, unsigned served, unsigned given) {
  const From from = who_yields(claim);
  if (from == From::kNobody) return false;
  std::vector<size_t> may;  // of those chosen
  for (size_t k = 0; k < tried_->chosen.size(); ++k)
    if ((given >> k & 1U) == 0 && may_ask(claim, from, tried_->chosen[k])) may.push_back(k);
  const int type = tried_->types[claim];
  const bool within = from == From::kOwnTenant || from == From::kBoth;
  for (unsigned some = 0; some < 1U << may.size() && steps_ > 0; ++some) {
    Turn turn{claim, within, {}};
    unsigned now_given = given;
    for (size_t k = 0; k < may.size(); ++k) {
      if ((some >> k & 1U) == 0) continue;
      turn.asked.push_back(tried_->chosen[may[k]]);
      now_given |= 1U << may[k];
    }
    if (!serves(turn, from) || some_are_needless(turn, from)) continue;
    steps_ -= 2 * steps_of_quotas_;
    quotas_.serve(claims_[claim].job, type, victims(turn.asked));
    for (const size_t i : turn.asked) left_[i] = tried_->target[i];
    which_[type] |= 1U << claim;
    turns_.push_back(turn);
    const bool all = serve_rest(served | 1U << claim, now_given);
    turns_.pop_back();
    which_[type] &= ~(1U << claim);
    for (const size_t i : turn.asked) left_[i] = had_[i];
    quotas_.undo();
    if (all) return true;
  }
  return false;
}

std::vector<Victim> Orders::victims(const std::vector<size_t>& asked) const {
  std::vector<Victim> all;
  for (const size_t i : asked) all.push_back(Victim{candidates_[i].who.job, tried_->target[i], 0});
  return all;
}

bool Orders::fits_beside(size_t claim, int type, const std::vector<int>& left) {
  return rooms_.enough(type, which_[type] | 1U << claim, left);
}

bool Orders::leaves(size_t claim, int type, const std::vector<Victim>& victims, bool may_recharge) {
  steps_ -= steps_of_quotas_;
  return quotas_.leaves(claims_[claim].job, type, victims, may_recharge);
}

bool Orders::serves(const Turn& turn, From from) {
  std::vector<int> left = left_;
  for (const size_t i : turn.asked) left[i] = tried_->target[i];
  const int type = tried_->types[turn.claim];
  if (!fits_beside(turn.claim, type, left)) return false;
  return !turn.within || leaves(turn.claim, type, victims(turn.asked), from == From::kOwnTenant);
}

bool Orders::some_are_needless(const Turn& turn, From from) {
  for (size_t spared = 0; spared < turn.asked.size(); ++spared) {
    Turn without = turn;
    without.asked.erase(without.asked.begin() + static_cast<std::ptrdiff_t>(spared));
    if (serves(without, from)) return true;
  }
  return false;
}

bool Orders::may_ask(size_t claim, From from, size_t candidate) const {
  const Candidate& asked = candidates_[candidate];
  const bool own = asked.who.of_guaranteed && state_.jobs[asked.who.job].tenant == job_of(claim).tenant;
  if (from != From::kBorrowers && own) return true;
  return from != From::kOwnTenant && asked.who.borrower && asked.type == tried_->types[claim] &&
         asked.as_borrower(tried_->target[candidate]);
}

// Whom the claim may ask at its turn. kNobody: it cannot have this type.
Orders::From Orders::who_yields(size_t claim) {
  const Job& job = job_of(claim);
  const int index = claims_[claim].job;
  const int type = tried_->types[claim];
  std::vector<int> left = left_;
  for (size_t i = 0; i < candidates_.size(); ++i)
    if (candidates_[i].who.borrower) left[i] = std::min(left[i], candidates_[i].least_as_borrower());
  bool fits_some = false;
  for (const int other : claims_[claim].types) {
    if (!quotas_.fits(index, other)) continue;
    fits_some = true;
    if (fits_beside(claim, other, left)) return quotas_.fits(index, type) ? From::kBorrowers : From::kNobody;
  }
  const bool waits_for_protected = fits_some && some_protected_ && !claims_[claim].within;
  if (job.tier != Tier::kGuaranteed || waits_for_protected) return From::kNobody;
  left = left_;
  std::vector<Victim> own;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (!candidates_[i].who.of_guaranteed || state_.jobs[candidates_[i].who.job].tenant != job.tenant) continue;
    if (left[i] > 0) own.push_back(Victim{candidates_[i].who.job, 0, 0});
    left[i] = 0;
  }
  bool own_are_enough = false;
  for (const int other : claims_[claim].types) {
    if (!quotas_.could_hold(index, other) || !fits_beside(claim, other, left) || !leaves(claim, other, own, true))
      continue;
    if (other == type) return From::kOwnTenant;
    own_are_enough = true;
  }
  return own_are_enough || !quotas_.could_hold(index, type) ? From::kNobody : From::kBoth;
}

}  // namespace dl::policy::in_turns
