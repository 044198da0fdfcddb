// SPDX-License-Identifier: Apache-2.0
// How many messages to slurmctld a long queue takes: what cannot start is left as it was submitted.
#include <gtest/gtest.h>

#include "slurm-plugin/policyd/pace.h"
#include "slurm-plugin/policyd/planner.h"
#include "slurm-plugin/policyd/report.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using policy::Charge;
using testing::add_pending;
using testing::add_running;
using testing::cluster;
using testing::kNow;
using testing::label;

constexpr int kTenants = 100;
constexpr int kJobs = 10'000;

policy::ClusterState hundred_tenants() {
  policy::ClusterState state;
  state.types = {"a100"};
  for (int i = 0; i < kTenants; ++i) {
    policy::Tenant tenant;
    tenant.name = "t" + std::to_string(i);
    tenant.quota.any = 2;
    state.tenants.push_back(tenant);
  }
  return state;
}

// 200 GPUs, all of which are in use: each tenant runs on its quota.
observe::Records full_cluster() {
  observe::Records records = cluster(kTenants, 2);
  for (int i = 0; i < kTenants; ++i)
    add_running(&records, 1 + i, label("t" + std::to_string(i), 2, Charge::kOwn), "n" + std::to_string(1 + i), {2});
  return records;
}

std::vector<Action> plan_for(const observe::Records& records) {
  observe::ViewOptions options;
  options.gate_s = policy::kLongestGateS;
  const auto view = observe::view_cluster(hundred_tenants(), records, options);
  return plan(view, records, policy::decide(view.state), {});
}

// Claims wait for licences, which job_submit_dl gave them: only those that Slurm could start next need a rank.
TEST(LongQueueTest, ClaimsThatCannotStartTakeNoMessage) {
  observe::Records records = full_cluster();
  for (int i = 0; i < kJobs; ++i)
    add_pending(&records, 1000 + i, label("t" + std::to_string(i % kTenants), 1, Charge::kOwn)).begin_s = kNow - 1;
  auto actions = plan_for(records);
  EXPECT_EQ(actions.size(), size_t{2} * kTenants);
  for (const Action& action : actions) {
    EXPECT_EQ(action.update.site_factor, 200'000) << describe(action);
    EXPECT_FALSE(action.update.begin_s || action.update.licenses || action.update.admin_comment) << describe(action);
  }
  for (const Action& action : actions)
    for (auto& job : records.jobs)
      if (job.id == action.job) job.priority = job.site_factor = *action.update.site_factor;
  EXPECT_TRUE(plan_for(records).empty());
}

// Slurm's own order counts, not the one of submission: whoever Slurm would start next has the rank.
TEST(LongQueueTest, TheNextInSlurmsOrderAreRanked) {
  observe::Records records = full_cluster();
  for (int i = 0; i < 10; ++i) {
    auto& job = add_pending(&records, 1000 + i, label("t0", 1, Charge::kOwn));
    job.begin_s = kNow - 1;
    job.priority = i;
  }
  const auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 2U) << as_text(actions);
  EXPECT_EQ(actions[0].job, 1008);
  EXPECT_EQ(actions[1].job, 1009);
}

// Those that borrow and may start are held back one by one; there is nothing else in Slurm that ends by itself.
TEST(LongQueueTest, EachBorrowerTakesOneMessageInALease) {
  observe::Records records = full_cluster();
  for (int i = 0; i < kJobs; ++i) {
    policy::JobLabel its = label("t" + std::to_string(i % kTenants), 1, Charge::kBorrowed);
    its.tier = Tier::kBorrow;
    add_pending(&records, 1000 + i, its).begin_s = kNow - 1;
  }
  auto actions = plan_for(records);
  EXPECT_EQ(actions.size(), size_t{kJobs});
  for (const Action& action : actions) EXPECT_TRUE(action.update.begin_s && !action.update.site_factor);
  // Once is enough: the second look, when the first has been carried out in part, changes nothing of that.
  actions.resize(kJobs / 2);
  for (const Action& action : actions) records.jobs[action.job - 1000 + kTenants].begin_s = *action.update.begin_s;
  records.now_s += 5;
  EXPECT_EQ(plan_for(records).size(), size_t{kJobs / 2});
}

constexpr int kPace = GatePace::kPerSecond;

struct Rounds {
  std::chrono::steady_clock::time_point now{std::chrono::hours(5)};
  GatePace pace;
  // How many gates a round sets that begins so long after the one before, of so many.
  int after(std::chrono::milliseconds pause, size_t wanted) {
    now += pause;
    pace.begin(now, wanted);
    int set = 0;
    while (set < static_cast<int>(wanted) && pace.take()) ++set;
    return set;
  }
};

TEST(GatePaceTest, AThousandGatesAreSpreadOverManyRoundsAndAPauseSavesNoneUp) {
  using std::chrono::milliseconds;
  Rounds rounds;
  EXPECT_EQ(rounds.after(milliseconds(0), 1000), kPace) << "the first round has as many as a second";
  EXPECT_EQ(rounds.after(milliseconds(0), 870), 0);
  EXPECT_EQ(rounds.after(milliseconds(1000), 870), kPace);
  EXPECT_EQ(rounds.after(milliseconds(100), 740), kPace / 10);
  EXPECT_EQ(rounds.after(std::chrono::hours(1), 727), 2 * kPace);
  int set = 0;
  for (int i = 0; i < 100; ++i) set += rounds.after(milliseconds(30), 500);
  EXPECT_NEAR(set, 3 * kPace, 1) << "short rounds lose nothing";
}

TEST(GatePaceTest, VeryManyAreNotSpreadUntilFewAreLeft) {
  Rounds rounds;
  EXPECT_EQ(rounds.after(std::chrono::milliseconds(1000), kJobs), kJobs);
  EXPECT_EQ(rounds.after(std::chrono::milliseconds(1000), 1000), 1000) << "what that look has left over";
  rounds.after(std::chrono::milliseconds(1000), 10);
  EXPECT_LE(rounds.after(std::chrono::milliseconds(1000), 1000), 2 * kPace);
}

TEST(GatePaceTest, OnlyWhatKeepsAJobWaitingIsSpread) {
  Action action;
  action.update.begin_s = kNow + 60;
  EXPECT_TRUE(only_gates(action, kNow));
  action.update.begin_s = kNow;
  EXPECT_FALSE(only_gates(action, kNow)) << "it opens";
  action.update.begin_s = kNow + 60;
  action.update.licenses = "dl_t1:1";
  EXPECT_FALSE(only_gates(action, kNow));
  action.update.licenses.reset();
  action.kind = ActionKind::kReturn;
  EXPECT_FALSE(only_gates(action, kNow)) << "a victim that has gone";
}

}  // namespace
}  // namespace dl::policyd
