// SPDX-License-Identifier: Apache-2.0
// The searches of the policy beside trying everything, on clusters small enough for that.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::Dice;
using testing::random_state;

// The least loss of all sets, each candidate left alone, shrunk to any size it may have, or stopped.
struct Everything {
  const ClusterState& state;
  const FreeGpus& free;
  int type;
  int size;
  int learners;
  std::vector<int> candidates;
  bool found = false;
  VictimSet best;
  std::vector<int> own;  // by job of the state, GPUs that are its tenant's own; empty: none are

  void try_from(size_t i, const VictimSet& so_far, const FreeGpus& room) {
    if (i == candidates.size()) {
      if (room.slots(type, size) < learners) return;
      if (!found || less_loss(so_far, best)) best = so_far;
      found = true;
      return;
    }
    try_from(i + 1, so_far, room);
    const Job& job = state.jobs[candidates[i]];
    for (int left = 0; left < job.learners(); ++left) {
      if (left != 0 && left < job.min_learners) continue;
      // It keeps the learners that are wholly own, unless its smallest size is more than these.
      const int has = own.empty() ? 0 : own[candidates[i]];
      const int keeps = has / job.gpus_per_learner;
      if (left < keeps && (left > 0 || keeps >= job.min_learners)) continue;
      FreeGpus with = room;
      with.give(job.parts, job.gpus_per_learner);
      with.take(parts_after_shrink(job.parts, left), job.gpus_per_learner);
      VictimSet set = so_far;
      const int64_t lost = lost_if_paused(state, job);
      set.victims.push_back(Victim{candidates[i], left, lost});
      if (left == 0) {
        set.stopped_gpu_s += lost;
        set.own_gpus += has;
      } else {
        set.shrunk_gpu_s += lost;
        set.shrunk_gpus += (job.learners() - left) * job.gpus_per_learner;
      }
      try_from(i + 1, set, with);
    }
  }
};

TEST(PolicyVictims, are_those_that_trying_every_set_finds) {
  int searches = 0;
  int with_victims = 0;
  for (int seed = 0; searches < 20'000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed));
    const ClusterState state = random_state(&dice);
    std::vector<int> candidates;
    const int type = dice.from(0, state.type_count() - 1);
    for (size_t i = 0; i < state.jobs.size() && candidates.size() < 6; ++i) {
      const Job& job = state.jobs[i];
      if (job.running && state.type_held(job) == type) candidates.push_back(static_cast<int>(i));
    }
    if (candidates.empty()) continue;
    ++searches;
    const int size = 1 << dice.from(0, 3);
    const int learners = dice.from(1, 4);
    const FreeGpus free(state);
    Everything everything{state, free, type, size, learners, candidates, false, {}, {}};
    everything.try_from(0, VictimSet{}, free);
    int budget = state.search_budget;
    const auto found = find_victims(state, free, type, size, learners, candidates, &budget);
    ASSERT_EQ(found.has_value(), everything.found) << "seed " << seed;
    if (!found) continue;
    ASSERT_TRUE(found->exact) << "seed " << seed;
    ASSERT_FALSE(less_loss(everything.best, *found)) << "seed " << seed << ": a lesser loss exists";
    ASSERT_FALSE(less_loss(*found, everything.best)) << "seed " << seed << ": its loss is counted wrong";
    with_victims += found->victims.empty() ? 0 : 1;
  }
  EXPECT_GT(with_victims, 2000);
}

TEST(PolicyVictims, of_which_a_part_is_own_are_those_that_trying_every_set_finds) {
  int with_own = 0;
  for (int seed = 0; seed < 20'000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 7'000'000);
    const ClusterState state = random_state(&dice);
    SoFar so_far{std::vector<int>(state.jobs.size()), std::vector<int>(state.jobs.size())};
    std::vector<int> candidates;
    for (size_t i = 0; i < state.jobs.size(); ++i) {
      const Job& job = state.jobs[i];
      if (!job.running) continue;
      so_far.left[i] = job.learners();
      so_far.own[i] = dice.one_in(2) ? 0 : dice.from(0, job.gpus() - 1);
      if (state.type_held(job) == 0 && candidates.size() < 6) candidates.push_back(static_cast<int>(i));
    }
    const int size = 1 << dice.from(0, 3);
    const int learners = dice.from(1, 4);
    const FreeGpus free(state);
    Everything everything{state, free, 0, size, learners, candidates, false, {}, so_far.own};
    everything.try_from(0, VictimSet{}, free);
    int budget = state.search_budget;
    const auto found = find_victims(state, free, 0, size, learners, candidates, &budget, true, &so_far);
    ASSERT_EQ(found.has_value(), everything.found) << "seed " << seed;
    if (!found) continue;
    ASSERT_FALSE(less_loss(everything.best, *found)) << "seed " << seed << ": a lesser loss exists";
    ASSERT_FALSE(less_loss(*found, everything.best)) << "seed " << seed << ": its loss is counted wrong";
    with_own += found->own_gpus > 0 ? 1 : 0;
  }
  EXPECT_GT(with_own, 500);
}

TEST(PolicyVictims, cannot_be_put_back_even_when_the_search_is_cut_short) {
  int searches = 0;
  for (int seed = 0; seed < 20'000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed));
    const ClusterState state = random_state(&dice);
    std::vector<int> candidates;
    for (size_t i = 0; i < state.jobs.size(); ++i) {
      if (state.jobs[i].running) candidates.push_back(static_cast<int>(i));
    }
    const int size = 1 << dice.from(0, 3);
    const int learners = dice.from(1, 4);
    const FreeGpus free(state);
    int budget = dice.from(0, 4);
    const auto found = find_victims(state, free, 0, size, learners, candidates, &budget);
    if (!found || found->victims.empty()) continue;
    ++searches;
    FreeGpus room = free;
    for (const Victim& victim : found->victims) {
      const Job& job = state.jobs[victim.job];
      room.give(job.parts, job.gpus_per_learner);
      room.take(parts_after_shrink(job.parts, victim.learners_left), job.gpus_per_learner);
    }
    ASSERT_GE(room.slots(0, size), learners) << "seed " << seed;
    for (const Victim& victim : found->victims) {
      const Job& job = state.jobs[victim.job];
      FreeGpus without = room;
      without.give(parts_after_shrink(job.parts, victim.learners_left), job.gpus_per_learner);
      without.take(job.parts, job.gpus_per_learner);
      ASSERT_LT(without.slots(0, size), learners) << "seed " << seed << ": job " << job.id << " is no victim";
    }
  }
  EXPECT_GT(searches, 2000);
}

struct Spots {
  size_t nodes = 1U << 30;
  size_t switches = 1U << 30;
};

Spots fewest(const FreeGpus& free, const std::vector<int>& nodes, int size, int learners) {
  Spots best;
  for (unsigned set = 1; set < 1U << nodes.size(); ++set) {
    int slots = 0;
    std::set<int> switches;
    size_t count = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!(set >> i & 1U)) continue;
      slots += free.on(nodes[i]) / size;
      switches.insert(free.node(nodes[i]).leaf_switch);
      ++count;
    }
    if (slots < learners || count > best.nodes) continue;
    if (count < best.nodes || switches.size() < best.switches) best = Spots{count, switches.size()};
  }
  return best;
}

TEST(PolicyPlacement, packs_on_the_fewest_nodes_and_then_the_fewest_switches_there_are) {
  int placed = 0;
  for (int seed = 0; seed < 20'000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed));
    const ClusterState state = random_state(&dice);
    const FreeGpus free(state);
    const int type = dice.from(0, state.type_count() - 1);
    const int size = 1 << dice.from(0, 2);
    const int learners = dice.from(1, 12);
    const auto parts = place_pack(free, type, size, learners);
    ASSERT_EQ(parts.has_value(), free.slots(type, size) >= learners) << "seed " << seed;
    if (!parts) continue;
    ++placed;
    int all = 0;
    std::set<int> switches;
    for (const Part& part : *parts) {
      ASSERT_LE(part.learners * size, free.on(part.node)) << "seed " << seed;
      all += part.learners;
      switches.insert(free.node(part.node).leaf_switch);
    }
    ASSERT_EQ(all, learners) << "seed " << seed;
    const Spots best = fewest(free, free.nodes_of(type), size, learners);
    ASSERT_EQ(parts->size(), best.nodes) << "seed " << seed;
    ASSERT_EQ(switches.size(), best.switches) << "seed " << seed;
  }
  EXPECT_GT(placed, 2000);
}

TEST(PolicyPlacement, spreads_with_as_few_learners_on_one_node_as_possible) {
  for (int seed = 0; seed < 20'000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed));
    const ClusterState state = random_state(&dice);
    const FreeGpus free(state);
    const int size = 1 << dice.from(0, 2);
    const int learners = dice.from(1, 12);
    const auto parts = place_spread(free, 0, size, learners);
    ASSERT_EQ(parts.has_value(), free.slots(0, size) >= learners) << "seed " << seed;
    if (!parts) continue;
    int most = 0;
    int all = 0;
    for (const Part& part : *parts) {
      ASSERT_LE(part.learners * size, free.on(part.node)) << "seed " << seed;
      most = std::max(most, part.learners);
      all += part.learners;
    }
    ASSERT_EQ(all, learners) << "seed " << seed;
    int below = 0;
    for (const int node : free.nodes_of(0)) below += std::min(most - 1, free.on(node) / size);
    ASSERT_LT(below, learners) << "seed " << seed << ": fewer on one node would do";
  }
}

}  // namespace
}  // namespace dl::policy
