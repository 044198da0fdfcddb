// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/joint.h"

#include <algorithm>
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

// The victims of all claims: of one that was asked several times, the last word.
VictimSet all_victims(const ClusterState& state, const std::vector<Taken>& claims, const SoFar& before) {
  std::vector<std::pair<int, int>> left;
  for (const Taken& claim : claims)
    for (const Victim& victim : claim.set.victims) left.emplace_back(victim.job, victim.learners_left);
  // Each is asked for more every time: the least is the last.
  std::sort(left.begin(), left.end());
  VictimSet set;
  for (size_t i = 0; i < left.size(); ++i)
    if (i == 0 || left[i - 1].first != left[i].first)
      add(state, victim_of(state, left[i].first, before.left[left[i].first], left[i].second),
          before.left[left[i].first], &set);
  return set;
}

void give_up(const ClusterState& state, int index, int had, int left, FreeGpus* free) {
  const Job& job = state.jobs[index];
  free->give(parts_after_shrink(job.parts, had), job.gpus_per_learner);
  free->take(parts_after_shrink(job.parts, left), job.gpus_per_learner);
}

struct RoomWithout {
  FreeGpus now, later;
};

// What is free without what these claims have done. Nothing where others count on that.
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
  for (const int node : later.nodes_of(claims.front().type))
    if (later.on(node) < now.on(node) || now.on(node) < 0) return std::nullopt;
  return RoomWithout{std::move(now), std::move(later)};
}

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

  bool serve(Taken* claim) {
    const Job& job = state_.jobs[claim->job];
    const auto fits = [&] { return room_.slots(claim->type, job.gpus_per_learner) >= job.min_learners; };
    std::vector<std::pair<size_t, int>> taken;  // and how many learners each had
    for (size_t i = first_; i < pool_.size() && !fits(); ++i) {
      if (pool_[i].has == pool_[i].target) continue;
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
    auto parts = place(job.placement, now_, claim->type, job.gpus_per_learner, job.min_learners);
    claim->now = parts.has_value();
    if (!parts) parts = place(job.placement, room_, claim->type, job.gpus_per_learner, job.min_learners);
    if (!parts) return false;
    // What becomes free last is used first, as Space::keep() does.
    for (const Part& part : *parts) {
      const int wanted = part.learners * job.gpus_per_learner;
      const int later = claim->now ? 0 : std::min(wanted, room_.on(part.node) - now_.on(part.node));
      now_.add(part.node, later - wanted);
      room_.add(part.node, -wanted);
    }
    claim->kept = Space::Kept{std::move(*parts), job.gpus_per_learner, {}, {}};
    return true;
  }

 private:
  struct Left {
    int job;
    int has;
    int target;
  };

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
};

// Of sizes in falling order.
bool multiples(const std::vector<Need>& needs) {
  for (size_t i = 1; i < needs.size(); ++i)
    if (needs[i - 1].gpus_per_learner % needs[i].gpus_per_learner != 0) return false;
  return true;
}

}  // namespace

std::optional<std::vector<Taken>> take_jointly(const ClusterState& state, const Space& space, std::vector<Taken> claims,
                                               const std::vector<int>& candidates, const SoFar& before, int budget) {
  const VictimSet one_by_one = all_victims(state, claims, before);
  if (claims.size() < 2 || one_by_one.victims.empty()) return std::nullopt;
  std::stable_sort(claims.begin(), claims.end(), [&](const Taken& a, const Taken& b) {
    return state.jobs[a.job].gpus_per_learner > state.jobs[b.job].gpus_per_learner;
  });
  std::vector<Need> needs;
  for (const Taken& claim : claims)
    needs.push_back(Need{state.jobs[claim.job].gpus_per_learner, state.jobs[claim.job].min_learners});
  if (!multiples(needs)) return std::nullopt;
  std::optional<RoomWithout> room = room_without(state, space, claims, one_by_one, before);
  if (!room) return std::nullopt;
  int steps = candidates.size() <= kFewTogether ? budget : 0;
  const auto found = find_joint_victims(state, room->later, claims.front().type, needs, candidates, &steps, before,
                                        one_by_one.victims);
  if (!found) return std::nullopt;
  Sharing sharing(state, std::move(*room), *found, before);
  for (Taken& claim : claims) {
    if (!sharing.serve(&claim)) return std::nullopt;
    claim.set.exact = found->exact;
  }
  if (!less_loss(all_victims(state, claims, before), one_by_one)) return std::nullopt;
  return claims;
}

}  // namespace dl::policy
