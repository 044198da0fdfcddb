// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/turn_places.h"

#include <algorithm>
#include <utility>

#include "slurm-plugin/policy/gangs_room.h"
#include "slurm-plugin/policy/placement.h"
#include "slurm-plugin/policy/turn_rooms.h"

namespace dl::policy::in_turns {
namespace {

// The most places that are tried in all for claims that are served one after another.
constexpr int kMostPlaces = 256;

void give_up(const ClusterState& state, const SoFar& before, const Taken& claim, FreeGpus* free) {
  for (const Victim& victim : claim.set.victims) {
    const Job& job = state.jobs[victim.job];
    free->give(parts_after_shrink(job.parts, before.left[victim.job]), job.gpus_per_learner);
    free->take(parts_after_shrink(job.parts, victim.learners_left), job.gpus_per_learner);
  }
}

// What is free once the victims of all claims have gone.
FreeGpus room_then(const ClusterState& state, const RoomWithout& room, const SoFar& before,
                   const std::vector<Taken>& claims) {
  FreeGpus all = room.later;
  for (const Taken& claim : claims) give_up(state, before, claim, &all);
  return all;
}

// A guaranteed one to which jobs of its tenant yield starts with the next decision, when others of them can be charged
// as borrowed for it.
bool may_start_now(const Taken& claim) {
  return !claim.within && claim.set.victims.empty();
}

// It looks at the nodes several times for each learner.
int64_t steps_of_place_beside(const ClusterState& state, const Need& need) {
  return 4 * static_cast<int64_t>(state.nodes.size()) * need.learners;
}

class PlacesInTurns {
 public:
  PlacesInTurns(const ClusterState& state, const RoomWithout& room, const SoFar& before, int64_t* steps,
                std::vector<Taken>* claims)
      : state_(state),
        before_(before),
        steps_(*steps),
        claims_(*claims),
        all_(room_then(state, room, before, *claims)) {}

  // From the turn `next` on. `now`, `room`: what is free now, and once all have gone that were asked so far.
  bool find(size_t next, const FreeGpus& now, FreeGpus room) {
    if (next == claims_.size()) return true;
    if (steps_ <= 0) return false;
    Taken& claim = claims_[next];
    const Need need = need_of(state_, claim);
    const Placement wanted = state_.jobs[claim.job].placement;
    give_up(state_, before_, claim, &room);
    if (may_start_now(claim) &&
        take(next, place(wanted, now, claim.type, need.gpus_per_learner, need.learners), true, now, room))
      return true;
    for (const Placement how : {wanted, wanted == Placement::kPack ? Placement::kSpread : Placement::kPack})
      if (take(next, place(how, room, claim.type, need.gpus_per_learner, need.learners), false, now, room)) return true;
    steps_ -= steps_of_place_beside(state_, need);
    const std::vector<Need> later = needs_after(next);
    return take(next, place_beside(room, claim.type, wanted == Placement::kSpread, need, later, &packing_steps_), false,
                now, room);
  }
  int packing_steps_left() const { return packing_steps_; }

 private:
  // Of claims of the same type.
  std::vector<Need> needs_after(size_t turn) const {
    std::vector<Need> needs;
    for (size_t i = turn + 1; i < claims_.size(); ++i)
      if (claims_[i].type == claims_[turn].type) needs.push_back(need_of(state_, claims_[i]));
    return needs;
  }

  bool take(size_t turn, const std::optional<std::vector<Part>>& parts, bool starts, FreeGpus now, FreeGpus room) {
    steps_ -= 8 * static_cast<int64_t>(state_.nodes.size());  // to find it, and to copy what is free
    if (!parts || packing_steps_ <= 0 || places_ <= 0) return false;
    --places_;
    Taken& claim = claims_[turn];
    const int size = need_of(state_, claim).gpus_per_learner;
    const std::vector<Need> later = needs_after(turn);
    all_.take(*parts, size);
    if (later.empty() || all_fit(all_, claim.type, later, &packing_steps_)) {
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
  int64_t& steps_;
  std::vector<Taken>& claims_;
  FreeGpus all_;  // what is free once all victims have gone, without the places that were given
  int places_ = kMostPlaces;
  int packing_steps_ = kPackingSteps;
};

// As place_anywhere(). *packing_steps: how much packing may still cost, counted down.
bool place_each(const ClusterState& state, const RoomWithout& without, const SoFar& before, int64_t* steps,
                std::vector<Taken>* claims, int* packing_steps) {
  FreeGpus now = without.now;
  FreeGpus room = room_then(state, without, before, *claims);
  std::vector<Taken*> order;
  for (Taken& claim : *claims) order.push_back(&claim);
  std::stable_sort(order.begin(), order.end(), [&](const Taken* a, const Taken* b) {
    return state.jobs[a->job].gpus_per_learner > state.jobs[b->job].gpus_per_learner;
  });
  for (size_t i = 0; i < order.size(); ++i) {
    *steps -= 8 * static_cast<int64_t>(state.nodes.size());
    Taken& claim = *order[i];
    const Need need = need_of(state, claim);
    const Placement placement = state.jobs[claim.job].placement;
    std::vector<Need> others;
    for (size_t k = i + 1; k < order.size(); ++k)
      if (order[k]->type == claim.type) others.push_back(need_of(state, *order[k]));
    const auto leaves_room = [&](const std::optional<std::vector<Part>>& parts) {
      if (!parts) return false;
      room.take(*parts, need.gpus_per_learner);
      const bool leaves = others.empty() || all_fit(room, claim.type, others, packing_steps);
      room.give(*parts, need.gpus_per_learner);
      return leaves;
    };
    std::optional<std::vector<Part>> parts;
    if (may_start_now(claim)) parts = place(placement, now, claim.type, need.gpus_per_learner, need.learners);
    claim.now = leaves_room(parts);
    if (!claim.now) {
      parts = place(placement, room, claim.type, need.gpus_per_learner, need.learners);
      if (!leaves_room(parts)) {
        *steps -= steps_of_place_beside(state, need);
        parts = place_beside(room, claim.type, placement == Placement::kSpread, need, others, packing_steps);
      }
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

}  // namespace

bool place_in_turns(const ClusterState& state, const RoomWithout& room, const SoFar& before, int64_t* steps,
                    std::vector<Taken>* claims) {
  PlacesInTurns places(state, room, before, steps, claims);
  const bool found = places.find(0, room.now, room.later);
  *steps -= kPackingSteps - places.packing_steps_left();
  return found;
}

bool place_anywhere(const ClusterState& state, const RoomWithout& without, const SoFar& before, int64_t* steps,
                    std::vector<Taken>* claims) {
  int packing_steps = kPackingSteps;
  const bool found = place_each(state, without, before, steps, claims, &packing_steps);
  *steps -= kPackingSteps - packing_steps;
  return found;
}

}  // namespace dl::policy::in_turns
