// SPDX-License-Identifier: Apache-2.0
// What the search in turns does when it has to give up: it counts its steps, so that it ends, and ends alike
// everywhere.
#include <gtest/gtest.h>

#include <vector>

#include "slurm-plugin/policy/in_turns.h"
#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::cluster;
using testing::Dice;
using testing::mixed_claims;

// Quotas that hold a claim only once all jobs of its tenant have gone: so no set is allowed but that of all of them,
// and all others are tried before it.
class HardQuotas : public TurnQuotas {
 public:
  explicit HardQuotas(size_t all) : all_(all) {}
  bool fits(int, int) override { return asked(false); }
  bool could_hold(int, int) override { return asked(true); }
  bool leaves(int, int, const std::vector<Victim>& victims, bool) override { return asked(victims.size() == all_); }
  void serve(int, int, const std::vector<Victim>&) override {}
  void undo() override {}
  int64_t times() const { return times_; }

 private:
  bool asked(bool answer) {
    ++times_;
    return answer;
  }
  const size_t all_;
  int64_t times_ = 0;
};

struct Tried {
  bool found;
  int64_t steps_left;
  int64_t times_asked;
};

// As many claims and jobs as are tried at most, on `nodes` nodes. `learners`: of each elastic job at most.
Tried try_hard_one(int nodes, int learners, int64_t steps) {
  ClusterState state = cluster(nodes, 8);
  add_tenant(&state, "a", nodes * 8);
  std::vector<Yielding> yielding;
  for (int i = 0; i < static_cast<int>(kMostYielding); ++i) {
    const int node = i % nodes;
    Job& job = add_running(&state, 0, {{node, learners}}, Charge::kOwn);
    job.min_learners = 1;
    job.checkpoint_s = state.now_s - 100 - i;
    yielding.push_back(Yielding{i, false, true});
  }
  SoFar before;
  VictimSet all;
  for (const Job& job : state.jobs) {
    before.left.push_back(job.learners());
    before.own.push_back(job.gpus());
    all.victims.push_back(Victim{static_cast<int>(&job - state.jobs.data()), 0, lost_if_paused(state, job)});
  }
  std::vector<Taken> claims;
  for (int i = 0; i < static_cast<int>(kMostInTurns); ++i) {
    Job& job = add_job(&state, 0, 1 + i / 2, 1 + i % 2);
    job.tier = Tier::kGuaranteed;
    claims.push_back(Taken{static_cast<int>(state.jobs.size()) - 1, 0, {}, {}, false, {0}, true, {}});
  }
  claims.front().set = all;
  const RoomWithout room{FreeGpus(state), FreeGpus(state)};
  HardQuotas quotas(yielding.size());
  const auto found = take_in_turns(state, room, claims, yielding, false, before, &steps, &quotas);
  return Tried{found.has_value(), steps, quotas.times()};
}

TEST(PolicyInTurnsSteps, the_search_ends_when_they_are_used_up) {
  for (const int nodes : {24, 1250}) {
    for (const int learners : {1, 4}) {
      const int64_t steps = 2'000'000;
      const Tried tried = try_hard_one(nodes, learners, steps);
      EXPECT_FALSE(tried.found);
      EXPECT_LE(tried.steps_left, 0);
      EXPECT_GT(tried.steps_left, -100'000);  // the last thing looked at is looked at whole
      EXPECT_LT(tried.times_asked, steps);
      const Tried again = try_hard_one(nodes, learners, steps);
      EXPECT_EQ(again.steps_left, tried.steps_left);
      EXPECT_EQ(again.times_asked, tried.times_asked);
    }
  }
}

// A job of very many learners could be brought to as many sizes.
TEST(PolicyInTurnsSteps, jobs_with_too_many_sizes_are_not_even_looked_at) {
  ClusterState state = cluster(1, kMostGpus);
  add_tenant(&state, "a", kMostGpus);
  add_running(&state, 0, {{0, kMostGpus}}, Charge::kOwn).min_learners = 1;
  Job& job = add_job(&state, 0, 1);
  job.tier = Tier::kGuaranteed;
  const Taken claim{1, 0, {}, {}, false, {0}, true, {}};
  const RoomWithout room{FreeGpus(state), FreeGpus(state)};
  const SoFar before{{kMostGpus, 0}, {kMostGpus, 0}};
  HardQuotas quotas(1);
  int64_t steps = 1000;
  EXPECT_FALSE(take_in_turns(state, room, {claim}, {Yielding{0, false, true}}, false, before, &steps, &quotas));
  EXPECT_EQ(steps, 1000);
  EXPECT_EQ(quotas.times(), 0);
}

// A decision whose search was cut short loses more now and then, and is the same the second time.
TEST(PolicyInTurnsSteps, with_few_of_them_decisions_are_the_same_each_time) {
  int cut_short = 0;
  for (int seed = 0; seed < 3000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 60'000'000);
    ClusterState state = mixed_claims(&dice);
    const auto lost = [&](int budget) {
      state.search_budget = budget;
      const Decision decision = decide(state);
      const Decision again = decide(state);
      int64_t sum = 0;
      for (const Reclaim& reclaim : decision.reclaims) sum += reclaim.set.lost_gpu_s();
      int64_t same = 0;
      for (const Reclaim& reclaim : again.reclaims) same += reclaim.set.lost_gpu_s();
      EXPECT_EQ(sum, same) << "seed " << seed;
      EXPECT_EQ(decision.reclaims.size(), again.reclaims.size()) << "seed " << seed;
      return sum;
    };
    cut_short += lost(1) > lost(20'000);
  }
  EXPECT_GT(cut_short, 10);
}

}  // namespace
}  // namespace dl::policy
