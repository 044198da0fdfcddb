// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/joint.h"

#include <algorithm>
#include <map>
#include <utility>

#include "slurm-plugin/policy/placement.h"

namespace dl::policy {
namespace {

// A job that gives up learners, from `had` down to `left`.
Victim victim_of(const ClusterState& state, int index, int had, int left) {
  const Job& job = state.jobs[index];
  // Who was asked to shrink already pauses once.
  const bool pauses_anyway = had < job.learners() && left > 0;
  return Victim{index, left, pauses_anyway ? 0 : lost_if_paused(state, job)};
}

void add(const ClusterState& state, const Victim& victim, int had, VictimSet* set) {
  if (victim.learners_left == 0) {
    set->stopped_gpu_s += victim.lost_gpu_s;
  } else {
    set->shrunk_gpu_s += victim.lost_gpu_s;
    set->shrunk_gpus += (had - victim.learners_left) * state.jobs[victim.job].gpus_per_learner;
  }
  set->victims.push_back(victim);
}

void give_up(const ClusterState& state, int index, int had, int left, FreeGpus* free) {
  const Job& job = state.jobs[index];
  free->give(parts_after_shrink(job.parts, had), job.gpus_per_learner);
  free->take(parts_after_shrink(job.parts, left), job.gpus_per_learner);
}

Need need_of(const ClusterState& state, const Taken& claim) {
  const Job& job = state.jobs[claim.job];
  return Need{job.gpus_per_learner, job.min_learners};
}

}  // namespace

VictimSet all_victims(const ClusterState& state, const std::vector<Taken>& claims, const SoFar& before) {
  std::vector<std::pair<int, int>> left;
  for (const Taken& claim : claims)
    for (const Victim& victim : claim.set.victims)
      if (victim.learners_left < before.left[victim.job]) left.emplace_back(victim.job, victim.learners_left);
  // Each is asked for more every time: the least is the last.
  std::sort(left.begin(), left.end());
  VictimSet set;
  for (size_t i = 0; i < left.size(); ++i)
    if (i == 0 || left[i - 1].first != left[i].first)
      add(state, victim_of(state, left[i].first, before.left[left[i].first], left[i].second),
          before.left[left[i].first], &set);
  return set;
}

std::optional<RoomWithout> room_without(const ClusterState& state, const Space& space, const std::vector<Taken>& claims,
                                        const VictimSet& victims, const SoFar& before) {
  FreeGpus now = space.at(Space::When::kNow);
  FreeGpus later = space.at(Space::When::kLater);
  for (const Taken& claim : claims) {
    for (size_t i = 0; i < claim.kept.parts.size(); ++i) {
      now.add(claim.kept.parts[i].node, claim.kept.now[i]);
      later.add(claim.kept.parts[i].node, claim.kept.later[i]);
    }
  }
  for (const Victim& victim : victims.victims)
    give_up(state, victim.job, victim.learners_left, before.left[victim.job], &later);
  for (size_t i = 0; i < state.nodes.size(); ++i) {
    const int node = static_cast<int>(i);
    if (later.on(node) < now.on(node) || now.on(node) < 0) return std::nullopt;
  }
  return RoomWithout{std::move(now), std::move(later)};
}

namespace {

// Says of all victims together which claim each is for, and where the claims will run.
class Sharing {
 public:
  Sharing(const ClusterState& state, RoomWithout room, const VictimSet& victims, const SoFar& before)
      : state_(state), now_(std::move(room.now)), room_(std::move(room.later)) {
    for (const Victim& victim : victims.victims)
      pool_.push_back(Left{victim.job, before.left[victim.job], victim.learners_left});
    // Node after node: so a claim finds what it needs without looking at all of them.
    std::stable_sort(pool_.begin(), pool_.end(),
                     [&](const Left& a, const Left& b) { return first_node(a) < first_node(b); });
  }

  // Claims of one type, the largest learners first.
  bool serve(const std::vector<Taken*>& claims) {
    std::vector<Need> needs;
    for (const Taken* claim : claims) needs.push_back(need_of(state_, *claim));
    needs = by_size(std::move(needs));
    if (!multiples(needs)) return serve_packed(claims, std::move(needs));
    return std::all_of(claims.begin(), claims.end(), [&](Taken* claim) {
      const Need need = need_of(state_, *claim);
      if (!take_victims(claim, [&] { return room_.slots(claim->type, need.gpus_per_learner) >= need.learners; }))
        return false;
      const Placement placement = state_.jobs[claim->job].placement;
      auto parts = place(placement, now_, claim->type, need.gpus_per_learner, need.learners);
      claim->now = parts.has_value();
      if (!parts) parts = place(placement, room_, claim->type, need.gpus_per_learner, need.learners);
      if (!parts) return false;
      keep(claim, std::move(*parts));
      return true;
    });
  }

 private:
  struct Left {
    int job;
    int has;
    int target;
  };

  // Where sizes are no multiples of one another it matters where each claim lies: all have their places first, and then
  // those victims that are on them. `needs`: of all claims, by size.
  bool serve_packed(const std::vector<Taken*>& claims, std::vector<Need> needs) {
    FreeGpus room = room_;
    for (const Left& one : pool_)
      if (one.has != one.target) give_up(state_, one.job, one.has, one.target, &room);
    std::vector<std::vector<Part>> places;
    for (const Taken* claim : claims) {
      const Placement placement = state_.jobs[claim->job].placement;
      const Need need = need_of(state_, *claim);
      // The largest come first.
      if ((needs.front().learners -= need.learners) == 0) needs.erase(needs.begin());
      auto parts = place(placement, room, claim->type, need.gpus_per_learner, need.learners);
      if (!parts) return false;
      room.take(*parts, need.gpus_per_learner);
      if (!needs.empty() && !all_fit(room, claim->type, needs, &packing_steps_)) {
        room.give(*parts, need.gpus_per_learner);
        parts = place_beside(room, claim->type, placement == Placement::kSpread, need, needs, &packing_steps_);
        if (!parts) return false;
        room.take(*parts, need.gpus_per_learner);
      }
      places.push_back(std::move(*parts));
    }
    for (size_t i = 0; i < claims.size(); ++i) {
      const int size = state_.jobs[claims[i]->job].gpus_per_learner;
      const auto hold = [&](const FreeGpus& free) {
        return std::all_of(places[i].begin(), places[i].end(),
                           [&](const Part& part) { return free.on(part.node) >= part.learners * size; });
      };
      if (!take_victims(claims[i], [&] { return hold(room_); })) return false;
      claims[i]->now = hold(now_);
      keep(claims[i], std::move(places[i]));
    }
    return true;
  }

  // Of those that are left the first that make room for the claim, without those that it does not need.
  template <typename Fits>
  bool take_victims(Taken* claim, Fits fits) {
    std::vector<std::pair<size_t, int>> taken;  // and how many learners each had
    for (size_t i = first_; i < pool_.size() && !fits(); ++i) {
      if (pool_[i].has == pool_[i].target || state_.type_held(state_.jobs[pool_[i].job]) != claim->type) continue;
      taken.emplace_back(i, pool_[i].has);
      set(&pool_[i], pool_[i].target);
    }
    if (!fits()) return false;
    claim->set = VictimSet{};
    for (size_t k = taken.size(); k-- > 0;) {
      Left& one = pool_[taken[k].first];
      const int had = taken[k].second;
      const int least = one.target == 0 ? had : one.target + 1;  // one that is to stop does not shrink first
      for (int left = had; left >= least; --left) {
        set(&one, left);
        if (fits()) break;
        set(&one, one.target);
      }
      if (one.has < had) add(state_, victim_of(state_, one.job, had, one.has), had, &claim->set);
    }
    std::sort(claim->set.victims.begin(), claim->set.victims.end(),
              [](const Victim& a, const Victim& b) { return a.job < b.job; });
    while (first_ < pool_.size() && pool_[first_].has == pool_[first_].target) ++first_;
    return true;
  }

  // What becomes free last is used first, as Space::keep() does.
  void keep(Taken* claim, std::vector<Part> parts) {
    const int size = state_.jobs[claim->job].gpus_per_learner;
    for (const Part& part : parts) {
      const int wanted = part.learners * size;
      const int later = claim->now ? 0 : std::min(wanted, room_.on(part.node) - now_.on(part.node));
      now_.add(part.node, later - wanted);
      room_.add(part.node, -wanted);
    }
    claim->kept = Space::Kept{std::move(parts), size, {}, {}};
  }

  int first_node(const Left& one) const { return state_.jobs[one.job].parts.front().node; }
  void set(Left* one, int left) {
    give_up(state_, one->job, one->has, left, &room_);
    one->has = left;
  }

  const ClusterState& state_;
  FreeGpus now_;
  FreeGpus room_;
  std::vector<Left> pool_;
  size_t first_ = 0;  // those before it are all given to claims
  int packing_steps_ = kPackingSteps;
};

// The victims with which all claims fit at the least loss, for any types that these get.
class JointSearch {
 public:
  JointSearch(const ClusterState& state, const FreeGpus& room, const std::vector<int>& candidates, const SoFar& before,
              const std::vector<Victim>& known, const JointSteps& most)
      : state_(state), room_(room), before_(before), known_(known), most_(most), others_budget_(most.budget) {
    candidates_.resize(state.types.size());
    for (const int job : candidates) candidates_[state.type_held(state.jobs[job])].push_back(job);
  }

  // `as_is`: the claims have these types already, and known victims that are enough.
  std::optional<VictimSet> find(const std::vector<Taken>& claims, const std::vector<int>& types, bool as_is) {
    VictimSet all;
    for (int type = 0; type < state_.type_count(); ++type) {
      std::vector<Need> needs;
      for (size_t i = 0; i < claims.size(); ++i)
        if (types[i] == type) needs.push_back(need_of(state_, claims[i]));
      if (needs.empty()) continue;
      const std::optional<VictimSet>& of_type = find(type, by_size(std::move(needs)), as_is);
      if (!of_type) return std::nullopt;
      all.victims.insert(all.victims.end(), of_type->victims.begin(), of_type->victims.end());
      all.stopped_gpu_s += of_type->stopped_gpu_s;
      all.shrunk_gpu_s += of_type->shrunk_gpu_s;
      all.shrunk_gpus += of_type->shrunk_gpus;
      all.own_gpus += of_type->own_gpus;
      all.exact = all.exact && of_type->exact;
    }
    return all;
  }

 private:
  const std::optional<VictimSet>& find(int type, const std::vector<Need>& needs, bool as_is) {
    std::vector<int> key = {type};
    for (const Need& need : needs) {
      key.push_back(need.gpus_per_learner);
      key.push_back(need.learners);
    }
    const auto [at, is_new] = found_.try_emplace(std::move(key));
    if (!is_new) return at->second;
    // What changes no type is searched for as long as if that were all.
    int none = 0;
    int own = most_.budget;
    const bool few = candidates_[type].size() <= kFewTogether;
    int own_packing = few ? most_.packing : std::min(most_.packing, kPackingSteps);
    int* steps = !few ? &none : as_is ? &own : &others_budget_;
    int* packing = as_is ? &own_packing : &others_packing_;
    at->second = find_joint_victims(state_, room_, type, needs, candidates_[type], steps, packing, before_,
                                    as_is ? known_ : std::vector<Victim>{});
    return at->second;
  }

  const ClusterState& state_;
  const FreeGpus& room_;
  const SoFar& before_;
  const std::vector<Victim>& known_;
  const JointSteps most_;
  int others_budget_;
  int others_packing_ = kPackingSteps;
  std::vector<std::vector<int>> candidates_;                    // by type
  std::map<std::vector<int>, std::optional<VictimSet>> found_;  // by type and needs
};

// Calls look(types) with all types that the claims could have together; not where these are too many.
template <typename Look>
void each_choice(const std::vector<Taken>& claims, Look look) {
  size_t choices = 1;
  for (const Taken& claim : claims) {
    choices *= std::max<size_t>(1, claim.types.size());
    if (choices > kMostChoices) return;
  }
  for (size_t choice = 0; choice < choices; ++choice) {
    size_t rest = choice;
    std::vector<int> types;
    for (const Taken& claim : claims) {
      const size_t count = std::max<size_t>(1, claim.types.size());
      types.push_back(claim.types.empty() ? claim.type : claim.types[rest % count]);
      rest /= count;
    }
    look(types);
  }
}

}  // namespace

std::optional<std::vector<Taken>> take_jointly(const ClusterState& state, const Space& space, std::vector<Taken> claims,
                                               const std::vector<int>& candidates, const SoFar& before,
                                               const JointSteps& most, const AllowedTypes& allowed) {
  const VictimSet one_by_one = all_victims(state, claims, before);
  if (one_by_one.victims.empty()) return std::nullopt;
  std::stable_sort(claims.begin(), claims.end(), [&](const Taken& a, const Taken& b) {
    return state.jobs[a.job].gpus_per_learner > state.jobs[b.job].gpus_per_learner;
  });
  const std::optional<RoomWithout> room = room_without(state, space, claims, one_by_one, before);
  if (!room) return std::nullopt;
  std::vector<int> as_is;
  for (const Taken& claim : claims) as_is.push_back(claim.type);
  JointSearch search(state, room->later, candidates, before, one_by_one.victims, most);
  std::vector<std::pair<std::vector<int>, VictimSet>> found;  // the last is best
  if (auto victims = search.find(claims, as_is, true)) found.emplace_back(as_is, std::move(*victims));
  each_choice(claims, [&](const std::vector<int>& types) {
    if (types == as_is || !allowed(claims, types)) return;
    auto victims = search.find(claims, types, false);
    if (victims && (found.empty() || less_loss(*victims, found.back().second)))
      found.emplace_back(types, std::move(*victims));
  });
  for (; !found.empty(); found.pop_back()) {
    const auto& [types, victims] = found.back();
    std::vector<Taken> shared = claims;
    std::map<int, std::vector<Taken*>> by_type;
    for (size_t i = 0; i < shared.size(); ++i) {
      shared[i].type = types[i];
      by_type[types[i]].push_back(&shared[i]);
    }
    Sharing sharing(state, *room, victims, before);
    const bool served =
        std::all_of(by_type.begin(), by_type.end(), [&](const auto& of_type) { return sharing.serve(of_type.second); });
    if (!served || !less_loss(all_victims(state, shared, before), one_by_one)) continue;
    for (Taken& claim : shared) claim.set.exact = victims.exact;
    return shared;
  }
  return std::nullopt;
}

}  // namespace dl::policy
