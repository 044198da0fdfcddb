// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/in_turns.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "slurm-plugin/policy/turn_orders.h"
#include "slurm-plugin/policy/turn_places.h"
#include "slurm-plugin/policy/turn_rooms.h"

namespace dl::policy {
namespace {

using in_turns::Candidate;
using in_turns::Candidates;
using in_turns::candidates_of;
using in_turns::loss_of;
using in_turns::Orders;
using in_turns::place_anywhere;
using in_turns::place_in_turns;
using in_turns::Rooms;
using in_turns::Tried;
using in_turns::Turn;

// A set of victims.
struct Some {
  Loss loss;
  std::vector<std::pair<size_t, size_t>> chosen;  // candidates, rising, and an option of each
};
// Of equal loss that one is tried first whose jobs are the youngest.
struct IsLater {
  bool operator()(const Some& a, const Some& b) const {
    return a.loss < b.loss || b.loss < a.loss ? b.loss < a.loss : b.chosen < a.chosen;
  }
};

// A way to give the claims their types.
struct Way {
  std::vector<int> types;       // by claim
  std::vector<unsigned> which;  // by type: a bit for each claim that has GPUs of it
};

std::vector<Way> ways_to_give_types(const ClusterState& state, const std::vector<Taken>& claims) {
  size_t count = 1;
  for (const Taken& claim : claims) count = std::min(kMostTypesInTurns + 1, count * claim.types.size());
  const bool as_is = count == 0 || count > kMostTypesInTurns;
  std::vector<Way> ways(as_is ? 1 : count);
  for (size_t i = 0; i < ways.size(); ++i) {
    size_t rest = i;
    ways[i].which.resize(state.types.size());
    for (size_t claim = 0; claim < claims.size(); ++claim) {
      const std::vector<int>& types = claims[claim].types;
      const int type = as_is ? claims[claim].type : types[rest % types.size()];
      if (!as_is) rest /= types.size();
      ways[i].types.push_back(type);
      ways[i].which[type] |= 1U << claim;
    }
  }
  return ways;
}

class Search {
 public:
  Search(const ClusterState& state, const RoomWithout& room, const std::vector<Taken>& claims,
         const std::vector<Yielding>& yielding, bool some_protected, const SoFar& before, int64_t* steps,
         TurnQuotas* quotas)
      : state_(state),
        room_(room),
        claims_(claims),
        before_(before),
        steps_(*steps),
        candidates_(candidates_of(state, yielding, before, room.later)),
        ways_(ways_to_give_types(state, claims)),
        rooms_(state, room.later, claims_, candidates_, steps),
        orders_(state, claims_, candidates_, some_protected, &rooms_, quotas, steps) {
    for (const Candidate& candidate : candidates_.all) had_.push_back(candidate.has);
  }

  // `present`: the victims that the claims have. False: no set of victims was found that loses less.
  bool find(const VictimSet& present) {
    const std::optional<Loss> most = loss_of_all(present);
    if (!most) return false;
    std::priority_queue<Some, std::vector<Some>, IsLater> next;
    next.push(Some{});
    while (!next.empty() && steps_ > 0 && next.size() < kMostSetsKept) {
      const Some some = next.top();
      next.pop();
      if (allowed(some)) return true;
      // All that is added comes after these.
      const size_t first = some.chosen.empty() ? 0 : some.chosen.back().first + 1;
      if (!enough_beside_all_from(first)) continue;
      for (size_t i = first; i < candidates_.all.size(); ++i) {
        const std::vector<in_turns::Option>& options = candidates_.all[i].options;
        for (size_t option = 0; option < options.size(); ++option) {
          --steps_;
          const Loss loss = some.loss + options[option].loss;
          if (!(loss < *most)) continue;
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
  // Nothing if one of them may not be asked any more.
  std::optional<Loss> loss_of_all(const VictimSet& victims) const {
    Loss all;
    for (const Victim& victim : victims.victims) {
      const auto known = std::find_if(candidates_.all.begin(), candidates_.all.end(),
                                      [&](const Candidate& candidate) { return candidate.who.job == victim.job; });
      if (known == candidates_.all.end()) return std::nullopt;
      all = all + loss_of(state_, *known, victim.learners_left, before_.own[victim.job]);
    }
    return all;
  }

  bool enough(const Way& way, const std::vector<int>& left) {
    for (int type = 0; type < state_.type_count(); ++type)
      if (!rooms_.enough(type, way.which[type], left)) return false;
    return true;
  }

  // Beside those of the set that was tried last.
  bool enough_beside_all_from(size_t first) {
    std::vector<int> left = tried_.target;
    for (size_t i = first; i < candidates_.all.size(); ++i) left[i] = candidates_.all[i].options.back().left;
    return std::any_of(ways_.begin(), ways_.end(), [&](const Way& way) { return enough(way, left); });
  }

  bool allowed(const Some& some) {
    tried_ = Tried{{}, had_, {}};
    for (const auto& [candidate, option] : some.chosen) {
      tried_.target[candidate] = candidates_.all[candidate].options[option].left;
      tried_.chosen.push_back(candidate);
    }
    std::vector<Taken> first;  // in the first order that was found, without places
    const auto has_places = [&](const std::vector<Turn>& turns) {
      std::vector<Taken> claims = served(turns);
      if (first.empty()) first = claims;
      if (!place_in_turns(state_, room_, before_, &steps_, &claims)) return false;
      found_ = std::move(claims);
      return true;
    };
    for (const Way& way : ways_) {
      if (steps_ <= 0) return false;
      if (!enough(way, tried_.target)) continue;
      tried_.types = way.types;
      if (orders_.any(tried_, has_places)) return true;
    }
    // In no order does each find a place on what has been given up until its turn.
    if (first.empty() || !place_anywhere(state_, room_, before_, &steps_, &first)) return false;
    found_ = std::move(first);
    return true;
  }

  std::vector<Taken> served(const std::vector<Turn>& turns) const {
    std::vector<Taken> all;
    for (const Turn& turn : turns) {
      const Taken& claim = claims_[turn.claim];
      Taken taken{claim.job, tried_.types[turn.claim], {}, {}, false, claim.types, turn.within, {}};
      for (const size_t i : turn.asked) {
        const Candidate& candidate = candidates_.all[i];
        const Loss loss = loss_of(state_, candidate, tried_.target[i], before_.own[candidate.who.job]);
        taken.set.victims.push_back(
            Victim{candidate.who.job, tried_.target[i], loss.stopped_gpu_s + loss.shrunk_gpu_s});
        taken.set.stopped_gpu_s += loss.stopped_gpu_s;
        taken.set.shrunk_gpu_s += loss.shrunk_gpu_s;
        taken.set.shrunk_gpus += loss.shrunk_gpus;
        taken.set.own_gpus += loss.own_gpus;
      }
      std::sort(taken.set.victims.begin(), taken.set.victims.end(),
                [](const Victim& a, const Victim& b) { return a.job < b.job; });
      taken.set.exact = rooms_.exact();
      all.push_back(std::move(taken));
    }
    return all;
  }

  const ClusterState& state_;
  const RoomWithout& room_;
  const std::vector<Taken>& claims_;
  const SoFar& before_;
  int64_t& steps_;
  const Candidates candidates_;
  const std::vector<Way> ways_;
  Rooms rooms_;
  Orders orders_;
  std::vector<int> had_;  // by candidate: learners
  Tried tried_;
  std::vector<Taken> found_;
};

bool too_many_changes(const ClusterState& state, const std::vector<Yielding>& yielding, const SoFar& before) {
  int64_t changes = 0;
  for (const Yielding& who : yielding) {
    const Job& job = state.jobs[who.job];
    const int64_t sizes = 1 + std::max(0, before.left[who.job] - job.min_learners);
    changes += sizes * static_cast<int64_t>(job.parts.size());
  }
  return changes > kMostChanges;
}

}  // namespace

std::optional<std::vector<Taken>> take_in_turns(const ClusterState& state, const RoomWithout& room,
                                                const std::vector<Taken>& claims,
                                                const std::vector<Yielding>& candidates, bool some_protected,
                                                const SoFar& before, int64_t* steps, TurnQuotas* quotas) {
  if (claims.size() > kMostInTurns || candidates.size() > kMostYielding) return std::nullopt;
  if (*steps <= 0 || too_many_changes(state, candidates, before)) return std::nullopt;
  Search search(state, room, claims, candidates, some_protected, before, steps, quotas);
  if (!search.find(all_victims(state, claims, before))) return std::nullopt;
  return search.take();
}

}  // namespace dl::policy
