// SPDX-License-Identifier: Apache-2.0
// The victims of several claims together, beside trying every set.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::cluster;
using testing::Dice;

// Learners that victims keep, by job.
std::map<int, int> asked_of(const Decision& decision) {
  std::map<int, int> asked;
  for (const Reclaim& reclaim : decision.reclaims)
    for (const Victim& victim : reclaim.set.victims) asked[victim.job] = victim.learners_left;
  return asked;
}

VictimSet loss_of(const ClusterState& state, const std::map<int, int>& asked) {
  VictimSet set;
  for (const auto& [index, left] : asked) {
    const Job& job = state.jobs[index];
    const int64_t lost = lost_if_paused(state, job);
    set.victims.push_back(Victim{index, left, lost});
    if (left == 0) {
      set.stopped_gpu_s += lost;
    } else {
      set.shrunk_gpu_s += lost;
      set.shrunk_gpus += (job.learners() - left) * job.gpus_per_learner;
    }
  }
  return set;
}

// Can all claims that wait for victims be placed at once, the largest learners first?
bool all_fit(const ClusterState& state, const Decision& decision, const FreeGpus& free) {
  FreeGpus room = free;
  for (const int size : {8, 4, 2, 1}) {
    for (const Waiting& waiting : decision.waiting) {
      const Job& job = state.jobs[waiting.job];
      if (waiting.reason != Reason::kVictimsLeaving || job.gpus_per_learner != size) continue;
      const int type = state.nodes[waiting.parts.front().node].type;
      const auto parts = place(job.placement, room, type, size, job.min_learners);
      if (!parts) return false;
      room.take(*parts, size);
    }
  }
  return true;
}

struct Everything {
  const ClusterState& state;
  const Decision& decision;
  std::vector<int> candidates;
  std::optional<VictimSet> best;

  void try_from(size_t i, std::map<int, int>* asked, const FreeGpus& room) {
    if (i == candidates.size()) {
      const VictimSet set = loss_of(state, *asked);
      if ((!best || less_loss(set, *best)) && all_fit(state, decision, room)) best = set;
      return;
    }
    try_from(i + 1, asked, room);
    const Job& job = state.jobs[candidates[i]];
    for (int left = 0; left < job.learners(); ++left) {
      if (left != 0 && left < job.min_learners) continue;
      FreeGpus with = room;
      with.give(job.parts, job.gpus_per_learner);
      with.take(parts_after_shrink(job.parts, left), job.gpus_per_learner);
      (*asked)[candidates[i]] = left;
      try_from(i + 1, asked, with);
      asked->erase(candidates[i]);
    }
  }
};

// One tenant owns all GPUs, two others hold most of them; it claims several gangs.
ClusterState several_claims(Dice* dice, int most_running) {
  ClusterState state = cluster(dice->from(1, 5), 8);
  add_tenant(&state, "owner", static_cast<int>(state.nodes.size()) * 8);
  add_tenant(&state, "b", 0);
  add_tenant(&state, "c", 0);
  for (int i = 0; i < most_running; ++i) {
    const int size = 1 << dice->from(0, 3);
    const int learners = dice->from(1, size == 1 ? 8 : 3);
    const auto parts =
        place(dice->one_in(2) ? Placement::kPack : Placement::kSpread, FreeGpus(state), 0, size, learners);
    if (!parts) continue;
    Job& job = add_running(&state, dice->from(1, 2), *parts, Charge::kBorrowed, size);
    if (dice->one_in(3)) job.min_learners = dice->from(1, job.max_learners);
    job.start_s = state.now_s - dice->from(0, 5000);
    job.checkpoint_s = state.now_s - dice->from(0, 5000);
    job.restart_s = dice->from(0, 120);
  }
  const int claims = dice->from(2, 5);
  for (int i = 0; i < claims; ++i) {
    Job& job = add_job(&state, 0, dice->from(1, 4), 1 << dice->from(0, 3));
    if (dice->one_in(2)) job.placement = Placement::kSpread;
  }
  return state;
}

// A job of eight GPUs that has just saved, and eight that would lose more than it, together and almost alone.
TEST(PolicyJoint, eight_claims_take_back_from_one_large_job_rather_than_from_eight) {
  ClusterState state = cluster(2, 8);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 8}}, Charge::kBorrowed).checkpoint_s = state.now_s;
  for (int i = 0; i < 8; ++i) add_running(&state, 1, {{1, 1}}, Charge::kBorrowed).checkpoint_s = state.now_s - 380;
  for (int i = 0; i < 8; ++i) add_job(&state, 0, 1);
  const Decision decision = decide(state);
  EXPECT_EQ(asked_of(decision), (std::map<int, int>{{0, 0}}));
  EXPECT_EQ(decision.waiting.size(), 8U);
}

// The first claim takes the cheap job; the second needs the large one, whose GPUs are enough for both.
TEST(PolicyJoint, a_victim_that_a_later_one_makes_needless_is_put_back) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 1}}, Charge::kBorrowed).checkpoint_s = state.now_s;
  add_running(&state, 1, {{0, 3}}, Charge::kBorrowed).pausable = false;
  add_running(&state, 1, {{1, 4}}, Charge::kBorrowed).checkpoint_s = state.now_s - 100;
  add_job(&state, 0, 1);
  add_job(&state, 0, 1, 2);
  EXPECT_EQ(asked_of(decide(state)), (std::map<int, int>{{2, 0}}));
}

TEST(PolicyJoint, loss_is_the_least_that_trying_every_set_finds) {
  int several = 0;
  int with_shrinks = 0;
  for (int seed = 0; several < 3000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 20'000'000);
    const ClusterState state = several_claims(&dice, 7);
    const Decision decision = decide(state);
    const std::map<int, int> asked = asked_of(decision);
    if (decision.reclaims.empty() || decision.waiting.size() < 2) continue;
    ClusterState started = state;
    testing::carry_out(&started, decision, false);
    Everything everything{started, decision, {}, {}};
    for (size_t i = 0; i < state.jobs.size(); ++i)
      if (state.jobs[i].running) everything.candidates.push_back(static_cast<int>(i));
    if (everything.candidates.size() > 6) continue;
    ++several;
    std::map<int, int> nobody;
    everything.try_from(0, &nobody, FreeGpus(started));
    ASSERT_TRUE(everything.best.has_value()) << "seed " << seed;
    const VictimSet ours = loss_of(state, asked);
    ASSERT_FALSE(less_loss(*everything.best, ours))
        << "seed " << seed << ": " << ours.stopped_gpu_s << " + " << ours.shrunk_gpu_s << " where "
        << everything.best->stopped_gpu_s << " + " << everything.best->shrunk_gpu_s << " do";
    ASSERT_FALSE(less_loss(ours, *everything.best)) << "seed " << seed << ": not all claims fit";
    for (const auto& [job, left] : asked) with_shrinks += left > 0;
  }
  EXPECT_GT(with_shrinks, 300);
}

// 120 nodes full of jobs that cannot shrink, and many claims: more than what is tried in every order.
ClusterState large(Dice* dice, int most_size) {
  ClusterState state = cluster(120, 8);
  add_tenant(&state, "owner", 960);
  add_tenant(&state, "b", 0);
  for (int node = 0; node < 120; ++node) {
    for (int left = 8; left > 0;) {
      const int gpus = std::min(left, dice->one_in(3) ? dice->from(1, 8) : 1);
      Job& job = add_running(&state, 1, {{node, gpus}}, Charge::kBorrowed);
      job.start_s = state.now_s - 10'000;
      job.checkpoint_s = state.now_s - dice->from(0, 5000);
      job.restart_s = dice->from(0, 120);
      left -= gpus;
    }
  }
  const int claims = dice->from(20, 60);
  for (int i = 0; i < claims; ++i) add_job(&state, 0, dice->from(1, 4), 1 << dice->from(0, most_size));
  return state;
}

// What any set that frees so many GPUs loses at least, if parts of jobs could be stopped.
double least_for(const ClusterState& state, int gpus) {
  std::vector<std::pair<double, int>> jobs;
  for (const Job& job : state.jobs)
    if (job.running) jobs.emplace_back(static_cast<double>(lost_if_paused(state, job)) / job.gpus(), job.gpus());
  std::sort(jobs.begin(), jobs.end());
  double lost = 0;
  for (const auto& [per_gpu, held] : jobs) {
    const int taken = std::min(gpus, held);
    lost += per_gpu * taken;
    gpus -= taken;
  }
  return lost;
}

TEST(PolicyJoint, loss_of_many_is_at_most_the_least_and_one_victims) {
  for (int seed = 0; seed < 60; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 30'000'000);
    const ClusterState state = large(&dice, 0);
    const Decision decision = decide(state);
    int claimed = 0;
    for (const Job& job : state.jobs) claimed += job.running ? 0 : job.min_learners;
    const VictimSet ours = loss_of(state, asked_of(decision));
    int64_t greatest = 0;
    for (const Victim& victim : ours.victims) greatest = std::max(greatest, victim.lost_gpu_s);
    ASSERT_LE(static_cast<double>(ours.lost_gpu_s()), least_for(state, claimed) + static_cast<double>(greatest))
        << "seed " << seed;
  }
}

TEST(PolicyJoint, no_victim_of_many_can_be_put_back) {
  for (int seed = 0; seed < 60; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 31'000'000);
    const ClusterState state = large(&dice, 3);
    const Decision decision = decide(state);
    const std::map<int, int> asked = asked_of(decision);
    ASSERT_FALSE(asked.empty());
    FreeGpus room(state);
    for (const auto& [job, left] : asked) room.give(state.jobs[job].parts, 1);
    ASSERT_TRUE(all_fit(state, decision, room)) << "seed " << seed;
    for (const auto& [job, left] : asked) {
      FreeGpus without = room;
      without.take(state.jobs[job].parts, 1);
      ASSERT_FALSE(all_fit(state, decision, without)) << "seed " << seed << ": job " << job << " is no victim";
    }
  }
}

}  // namespace
}  // namespace dl::policy
