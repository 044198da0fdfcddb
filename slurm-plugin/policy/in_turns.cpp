// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/in_turns.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "slurm-plugin/policy/gangs_room.h"
#include "slurm-plugin/policy/placement.h"
#include "slurm-plugin/policy/turn_rooms.h"

namespace dl::policy {
namespace {

using in_turns::Candidate;
using in_turns::candidate_of;
using in_turns::Loss;
using in_turns::loss_of;
using in_turns::need_of;
using in_turns::Rooms;

struct Turn {
  size_t claim;
  bool within;
  std::vector<size_t> asked;  // candidates
};

// Gives the claims their places: each on what is free at its turn, so that the later ones still fit at theirs.
class PlacesInTurns {
 public:
  // `room`, `before`: without any of the claims.
  PlacesInTurns(const ClusterState& state, const RoomWithout& room, const SoFar& before, std::vector<Taken>* claims)
      : state_(state), before_(before), claims_(*claims), all_(room.later) {
    for (const Taken& claim : claims_) give_up(claim, &all_);
  }

  const FreeGpus& room_then() const { return all_; }

  // From the turn `next` on. `now`, `room`: what is free now, and once all have gone that were asked so far.
  bool find(size_t next, const FreeGpus& now, FreeGpus room) {
    if (next == claims_.size()) return true;
    Taken& claim = claims_[next];
    const Need need = need_of(state_, claim);
    const Placement wanted = state_.jobs[claim.job].placement;
    give_up(claim, &room);
    // A guaranteed one starts with the next decision, when jobs of its tenant can be charged as borrowed for it.
    if (!claim.within && claim.set.victims.empty() &&
        take(next, place(wanted, now, claim.type, need.gpus_per_learner, need.learners), true, now, room))
      return true;
    for (const Placement how : {wanted, wanted == Placement::kPack ? Placement::kSpread : Placement::kPack})
      if (take(next, place(how, room, claim.type, need.gpus_per_learner, need.learners), false, now, room)) return true;
    const std::vector<Need> later = needs_after(next);
    return take(next, place_beside(room, claim.type, wanted == Placement::kSpread, need, later, &steps_), false, now,
                room);
  }

 private:
  void give_up(const Taken& claim, FreeGpus* free) const {
    for (const Victim& victim : claim.set.victims) {
      const Job& job = state_.jobs[victim.job];
      free->give(parts_after_shrink(job.parts, before_.left[victim.job]), job.gpus_per_learner);
      free->take(parts_after_shrink(job.parts, victim.learners_left), job.gpus_per_learner);
    }
  }

  // Of claims of the same type.
  std::vector<Need> needs_after(size_t turn) const {
    std::vector<Need> needs;
    for (size_t i = turn + 1; i < claims_.size(); ++i)
      if (claims_[i].type == claims_[turn].type) needs.push_back(need_of(state_, claims_[i]));
    return needs;
  }

  bool take(size_t turn, const std::optional<std::vector<Part>>& parts, bool starts, FreeGpus now, FreeGpus room) {
    if (!parts || steps_ <= 0) return false;
    Taken& claim = claims_[turn];
    const int size = need_of(state_, claim).gpus_per_learner;
    const std::vector<Need> later = needs_after(turn);
    all_.take(*parts, size);
    if (later.empty() || all_fit(all_, claim.type, later, &steps_)) {
      room.take(*parts, size);
      if (starts) now.take(*parts, size);
      // What becomes free last is used first.
      for (const Part& part : *parts) now.add(part.node, std::min(0, room.on(part.node) - now.on(part.node)));
      claim.now = starts;
      claim.kept = Space::Kept{*parts, size, {}, {}};
      if (find(turn + 1, now, std::move(room))) return true;
    }
    all_.give(*parts, size);
    return false;
  }

  const ClusterState& state_;
  const SoFar& before_;
  std::vector<Taken>& claims_;
  FreeGpus all_;  // what is free once all victims have gone, without the places that were given
  int steps_ = kPackingSteps;
};

// Gives the claims their places wherever victims of any of them leave. `now`: what is free; `room`: once all have gone.
bool place_anywhere(const ClusterState& state, FreeGpus now, FreeGpus room, std::vector<Taken>* claims) {
  std::vector<Taken*> order;
  for (Taken& claim : *claims) order.push_back(&claim);
  std::stable_sort(order.begin(), order.end(), [&](const Taken* a, const Taken* b) {
    return state.jobs[a->job].gpus_per_learner > state.jobs[b->job].gpus_per_learner;
  });
  int steps = kPackingSteps;
  for (size_t i = 0; i < order.size(); ++i) {
    Taken& claim = *order[i];
    const Need need = need_of(state, claim);
    const Placement placement = state.jobs[claim.job].placement;
    std::vector<Need> others;
    for (size_t k = i + 1; k < order.size(); ++k)
      if (order[k]->type == claim.type) others.push_back(need_of(state, *order[k]));
    const auto leaves_room = [&](const std::optional<std::vector<Part>>& parts) {
      if (!parts) return false;
      room.take(*parts, need.gpus_per_learner);
      const bool leaves = others.empty() || all_fit(room, claim.type, others, &steps);
      room.give(*parts, need.gpus_per_learner);
      return leaves;
    };
    std::optional<std::vector<Part>> parts;
    // A guaranteed one starts with the next decision, when jobs of its tenant can be charged as borrowed for it.
    if (!claim.within && claim.set.victims.empty() && claim.displaced.empty())
      parts = place(placement, now, claim.type, need.gpus_per_learner, need.learners);
    claim.now = leaves_room(parts);
    if (!claim.now) {
      parts = place(placement, room, claim.type, need.gpus_per_learner, need.learners);
      if (!leaves_room(parts))
        parts = place_beside(room, claim.type, placement == Placement::kSpread, need, others, &steps);
      if (!parts) return false;
    }
    room.take(*parts, need.gpus_per_learner);
    for (const Part& part : *parts) {
      if (claim.now) now.add(part.node, -part.learners * need.gpus_per_learner);
      now.add(part.node, std::min(0, room.on(part.node) - now.on(part.node)));
    }
    claim.kept = Space::Kept{std::move(*parts), need.gpus_per_learner, {}, {}};
  }
  return true;
}

class Search {
 public:
  Search(const ClusterState& state, const RoomWithout& room, const std::vector<Taken>& claims,
         const std::vector<Yielding>& candidates, bool some_protected, const SoFar& before, int budget,
         TurnQuotas* quotas)
      : state_(state),
        claims_(claims),
        some_protected_(some_protected),
        before_(before),
        budget_(budget),
        quotas_(*quotas),
        nodes_(state.types.size()),
        room_(room),
        rooms_(state, room.later, claims_, candidates_, nodes_) {
    for (const Yielding& who : candidates) {
      candidates_.push_back(candidate_of(state, who, before, room.later, &nodes_));
      if (candidates_.back().options.empty()) candidates_.pop_back();
    }
    // Of equal sets that one is tried first whose jobs are the youngest.
    std::sort(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
      const Job& first = state_.jobs[a.who.job];
      const Job& second = state_.jobs[b.who.job];
      return first.start_s != second.start_s ? first.start_s > second.start_s : first.id > second.id;
    });
    for (const Candidate& candidate : candidates_) had_.push_back(candidate.has);
    list_ways();
  }

  // `present`: the victims that the claims have. False: no set of victims was found that loses less.
  bool find(const VictimSet& present) {
    Loss most;
    for (const Victim& victim : present.victims) {
      const auto known = std::find_if(candidates_.begin(), candidates_.end(),
                                      [&](const Candidate& candidate) { return candidate.who.job == victim.job; });
      if (known == candidates_.end()) return false;
      most = most + loss_of(state_, *known, victim.learners_left, before_.own[victim.job]);
    }
    std::priority_queue<Some, std::vector<Some>, IsLater> next;
    next.push(Some{});
    while (!next.empty() && budget_-- > 0) {
      const Some some = next.top();
      next.pop();
      if (allowed(some)) return true;
      // All that is added comes after these.
      const size_t first = some.chosen.empty() ? 0 : some.chosen.back().first + 1;
      if (!enough_beside_all_from(first)) continue;
      for (size_t i = first; i < candidates_.size(); ++i) {
        for (size_t option = 0; option < candidates_[i].options.size(); ++option) {
          const Loss loss = some.loss + candidates_[i].options[option].loss;
          if (!(loss < most)) continue;
          Some more{loss, some.chosen};
          more.chosen.emplace_back(i, option);
          next.push(std::move(more));
        }
      }
    }
    return false;
  }

  // What find() has found, in the order of the turns.
  std::vector<Taken> take() { return std::move(found_); }

 private:
  bool places_found() {
    --budget_;
    std::vector<Taken> all;
    for (const Turn& turn : turns_) {
      const Taken& claim = claims_[turn.claim];
      Taken taken{claim.job, types_[turn.claim], {}, {}, false, claim.types, turn.within, {}};
      for (const size_t i : turn.asked) {
        const Loss loss = loss_of(state_, candidates_[i], target_[i], before_.own[candidates_[i].who.job]);
        taken.set.victims.push_back(Victim{candidates_[i].who.job, target_[i], loss.stopped + loss.shrunk});
        taken.set.stopped_gpu_s += loss.stopped;
        taken.set.shrunk_gpu_s += loss.shrunk;
        taken.set.shrunk_gpus += loss.shrunk_gpus;
        taken.set.own_gpus += loss.own_gpus;
      }
      std::sort(taken.set.victims.begin(), taken.set.victims.end(),
                [](const Victim& a, const Victim& b) { return a.job < b.job; });
      taken.set.exact = rooms_.exact();
      all.push_back(std::move(taken));
    }
    PlacesInTurns places(state_, room_, before_, &all);
    if (first_.empty()) {
      first_ = all;
      room_then_ = places.room_then();
    }
    if (!places.find(0, room_.now, room_.later)) return false;
    found_ = std::move(all);
    return true;
  }

  struct Some {
    Loss loss;
    std::vector<std::pair<size_t, size_t>> chosen;  // candidates, rising, and an option of each
  };
  struct IsLater {
    bool operator()(const Some& a, const Some& b) const {
      return a.loss < b.loss || b.loss < a.loss ? b.loss < a.loss : b.chosen < a.chosen;
    }
  };
  enum class From { kNobody, kBorrowers, kOwnTenant, kBoth };

  const Job& job_of(size_t claim) const { return state_.jobs[claims_[claim].job]; }

  // All ways to give the claims their types.
  void list_ways() {
    size_t count = 1;
    for (const Taken& claim : claims_) count = std::min(kMostTypesInTurns + 1, count * claim.types.size());
    const bool as_is = count == 0 || count > kMostTypesInTurns;
    for (size_t way = 0; way < (as_is ? 1 : count); ++way) {
      size_t rest = way;
      std::vector<int> types;
      for (const Taken& claim : claims_) {
        types.push_back(as_is ? claim.type : claim.types[rest % claim.types.size()]);
        if (!as_is) rest /= claim.types.size();
      }
      ways_.push_back(std::move(types));
    }
  }

  // By type, the claims that have GPUs of it in this way.
  std::vector<unsigned> all_of(const std::vector<int>& way) const {
    std::vector<unsigned> which(state_.types.size());
    for (size_t i = 0; i < way.size(); ++i) which[way[i]] |= 1U << i;
    return which;
  }

  bool enough(const std::vector<int>& way, const std::vector<int>& left) {
    const std::vector<unsigned> which = all_of(way);
    for (int type = 0; type < state_.type_count(); ++type)
      if (!rooms_.enough(type, which[type], left)) return false;
    return true;
  }

  bool enough_beside_all_from(size_t first) {
    std::vector<int> left = target_;
    for (size_t i = first; i < candidates_.size(); ++i) left[i] = candidates_[i].options.back().left;
    return std::any_of(ways_.begin(), ways_.end(), [&](const std::vector<int>& way) { return enough(way, left); });
  }

  bool allowed(const Some& some) {
    target_ = had_;
    chosen_.clear();
    for (const auto& [candidate, option] : some.chosen) {
      target_[candidate] = candidates_[candidate].options[option].left;
      chosen_.push_back(candidate);
    }
    first_.clear();
    for (const std::vector<int>& way : ways_) {
      if (!enough(way, target_)) continue;
      types_ = way;
      left_ = had_;
      which_.assign(state_.types.size(), 0);
      if (serve_rest(0, 0)) return true;
    }
    // In no order does each find a place on what has been given up until its turn.
    if (first_.empty() || !place_anywhere(state_, room_.now, *room_then_, &first_)) return false;
    found_ = std::move(first_);
    return true;
  }

  // `served`: a bit for each claim that had its turn; `given`: for each of chosen_ that yields to one of these.
  bool serve_rest(unsigned served, unsigned given) {
    if (turns_.size() == claims_.size()) return given == (1U << chosen_.size()) - 1 && places_found();
    for (size_t claim = 0; claim < claims_.size() && budget_ > 0; ++claim) {
      if ((served >> claim & 1U) != 0 || like_an_earlier_one(served, claim)) continue;
      if (serve(claim, served, given)) return true;
    }
    return false;
  }

  bool like_an_earlier_one(unsigned served, size_t claim) const {
    const auto kind = [&](size_t which) {
      const Job& job = job_of(which);
      return std::make_tuple(job.tenant, job.tier, job.type, job.gpus_per_learner, job.min_learners, types_[which],
                             claims_[which].within);
    };
    for (size_t earlier = 0; earlier < claim; ++earlier)
      if ((served >> earlier & 1U) == 0 && kind(earlier) == kind(claim)) return true;
    return false;
  }

  bool serve(size_t claim, unsigned served, unsigned given) {
    const From from = who_yields(claim);
    if (from == From::kNobody) return false;
    std::vector<size_t> may;  // of chosen_
    for (size_t k = 0; k < chosen_.size(); ++k)
      if ((given >> k & 1U) == 0 && may_ask(claim, from, chosen_[k])) may.push_back(k);
    const int type = types_[claim];
    const bool within = from == From::kOwnTenant || from == From::kBoth;
    for (unsigned some = 0; some < 1U << may.size() && budget_ > 0; ++some) {
      --budget_;
      Turn turn{claim, within, {}};
      unsigned now_given = given;
      for (size_t k = 0; k < may.size(); ++k) {
        if ((some >> k & 1U) == 0) continue;
        turn.asked.push_back(chosen_[may[k]]);
        now_given |= 1U << may[k];
      }
      if (!serves(turn, from) || some_are_needless(turn, from)) continue;
      quotas_.serve(claims_[claim].job, type, victims(turn.asked));
      for (const size_t i : turn.asked) left_[i] = target_[i];
      which_[type] |= 1U << claim;
      turns_.push_back(turn);
      const bool all = serve_rest(served | 1U << claim, now_given);
      which_[type] &= ~(1U << claim);
      for (const size_t i : turn.asked) left_[i] = had_[i];
      quotas_.undo();
      if (all) return true;  // with the turns
      turns_.pop_back();
    }
    return false;
  }

  std::vector<Victim> victims(const std::vector<size_t>& asked) const {
    std::vector<Victim> all;
    for (const size_t i : asked) all.push_back(Victim{candidates_[i].who.job, target_[i], 0});
    return all;
  }

  bool fits_beside(size_t claim, int type, const std::vector<int>& left) {
    return rooms_.enough(type, which_[type] | 1U << claim, left);
  }

  bool serves(const Turn& turn, From from) {
    std::vector<int> left = left_;
    for (const size_t i : turn.asked) left[i] = target_[i];
    const int type = types_[turn.claim];
    if (!fits_beside(turn.claim, type, left)) return false;
    return !turn.within || quotas_.leaves(claims_[turn.claim].job, type, victims(turn.asked), from == From::kOwnTenant);
  }

  bool some_are_needless(const Turn& turn, From from) {
    for (size_t spared = 0; spared < turn.asked.size(); ++spared) {
      Turn without = turn;
      without.asked.erase(without.asked.begin() + static_cast<std::ptrdiff_t>(spared));
      if (serves(without, from)) return true;
    }
    return false;
  }

  bool may_ask(size_t claim, From from, size_t candidate) const {
    const Candidate& asked = candidates_[candidate];
    const bool own = asked.who.of_guaranteed && state_.jobs[asked.who.job].tenant == job_of(claim).tenant;
    if (from != From::kBorrowers && own) return true;
    return from != From::kOwnTenant && asked.who.borrower && asked.type == types_[claim] &&
           asked.as_borrower(target_[candidate]);
  }

  // Whom the claim may ask at its turn. kNobody: it cannot have this type.
  From who_yields(size_t claim) {
    const Job& job = job_of(claim);
    const int index = claims_[claim].job;
    const int type = types_[claim];
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
      if (!quotas_.could_hold(index, other) || !fits_beside(claim, other, left) ||
          !quotas_.leaves(index, other, own, true))
        continue;
      if (other == type) return From::kOwnTenant;
      own_are_enough = true;
    }
    return own_are_enough || !quotas_.could_hold(index, type) ? From::kNobody : From::kBoth;
  }

  const ClusterState& state_;
  const std::vector<Taken>& claims_;
  const bool some_protected_;
  const SoFar& before_;
  int budget_;
  TurnQuotas& quotas_;
  std::vector<Candidate> candidates_;
  std::vector<std::vector<int>> nodes_;  // by type: those that candidates are on
  const RoomWithout& room_;
  Rooms rooms_;
  std::vector<Taken> found_;
  std::vector<Taken> first_;            // of the set that is tried: the first order found, without places
  std::optional<FreeGpus> room_then_;   // once all of that set have gone
  std::vector<int> had_;                // by candidate: learners
  std::vector<std::vector<int>> ways_;  // types of the claims
  // Of the set that is tried: candidates, the learners that each of all keeps, the types of the claims.
  std::vector<size_t> chosen_;
  std::vector<int> target_;
  std::vector<int> types_;
  // As far as claims had their turns.
  std::vector<int> left_;
  std::vector<unsigned> which_;  // by type: a bit for each claim
  std::vector<Turn> turns_;
};

}  // namespace

std::optional<std::vector<Taken>> take_in_turns(const ClusterState& state, const RoomWithout& room,
                                                const std::vector<Taken>& claims,
                                                const std::vector<Yielding>& candidates, bool some_protected,
                                                const SoFar& before, int budget, TurnQuotas* quotas) {
  Search search(state, room, claims, candidates, some_protected, before, budget, quotas);
  if (!search.find(all_victims(state, claims, before))) return std::nullopt;
  return search.take();
}

}  // namespace dl::policy
