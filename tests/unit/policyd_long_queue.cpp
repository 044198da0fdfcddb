// SPDX-License-Identifier: Apache-2.0
// How many messages to slurmctld a long queue takes: what cannot start is left as it was submitted.
#include <gtest/gtest.h>

#include <algorithm>

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
  return needed_actions(view, records, policy::decide(view.state), {});
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

// Where a site has no weights of priorities, which is Slurm's default, a job has the priority 1, which is Slurm's
// least, and one with a site factor has just that. It is still the next one: else the others would be, and round by
// round each job of a queue got a rank.
TEST(LongQueueTest, WhoWasRankedIsStillTheNextWherePrioritiesHaveNoWeights) {
  for (const int64_t weighted : {0, 1000}) {
    observe::Records records = full_cluster();
    for (int i = 0; i < 1000; ++i) {
      auto& job = add_pending(&records, 1000 + i, label("t" + std::to_string(i % kTenants), 1, Charge::kOwn));
      job.begin_s = kNow - 1;
      job.priority = std::max<int64_t>(1, weighted);
    }
    size_t messages = 0;
    for (int round = 0; round < 3; ++round) {
      for (const Action& action : plan_for(records)) {
        observe::JobRecord& job = records.jobs[action.job - 1000 + kTenants];
        job.site_factor = action.update.site_factor.value_or(job.site_factor);
        job.priority = std::max<int64_t>(1, weighted + job.site_factor);
        ++messages;
      }
    }
    EXPECT_EQ(messages, size_t{2} * kTenants) << weighted;
  }
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

constexpr size_t kNext = 25;  // an eighth of the GPUs may come free between two looks

observe::Records queue_of_borrowers() {
  observe::Records records = full_cluster();
  for (int i = 0; i < kJobs; ++i) {
    policy::JobLabel its = label("t" + std::to_string(i % kTenants), 1, Charge::kBorrowed);
    its.tier = Tier::kBorrow;
    add_pending(&records, 1000 + i, its).begin_s = kNow - 1;
  }
  return records;
}

void carry_out(const Action& action, observe::Records* records) {
  observe::JobRecord& job = records->jobs[action.job - 1000 + kTenants];
  if (action.update.begin_s) job.begin_s = *action.update.begin_s;
  if (action.update.site_factor) job.site_factor = job.priority = *action.update.site_factor;
}

// Those that borrow and may start are held back one by one; there is nothing else in Slurm that ends by itself. Only
// the next of them matter at once.
TEST(LongQueueTest, EachBorrowerTakesOneMessageInALeaseAndNearlyAllCanWait) {
  observe::Records records = queue_of_borrowers();
  auto actions = plan_for(records);
  EXPECT_EQ(actions.size(), size_t{kJobs});
  for (size_t i = 0; i < actions.size(); ++i) {
    const observe::JobUpdate& update = actions[i].update;
    EXPECT_EQ(actions[i].can_wait, i >= kNext) << describe(actions[i]);
    EXPECT_EQ(bool{update.begin_s}, i >= kNext) << describe(actions[i]);
    EXPECT_EQ(bool{update.site_factor}, i < kNext) << describe(actions[i]);
  }
  // Once is enough: the second look, when the first has been carried out in part, changes nothing of that.
  actions.resize(kJobs / 2);
  for (const Action& action : actions) carry_out(action, &records);
  records.now_s += 5;
  EXPECT_EQ(plan_for(records).size(), size_t{kJobs / 2});
}

TEST(LongQueueTest, OnceAllGatesAreSetTheNextOnesGetTheirs) {
  observe::Records records = queue_of_borrowers();
  for (const Action& action : plan_for(records)) carry_out(action, &records);
  records.now_s += 5;
  const auto actions = plan_for(records);
  ASSERT_GE(actions.size(), kNext);
  for (size_t i = 0; i < actions.size(); ++i) {
    EXPECT_TRUE(actions[i].update.begin_s) << describe(actions[i]);
    EXPECT_EQ(actions[i].can_wait, i >= kNext) << "a gate that is not among the first any more gets longer";
    carry_out(actions[i], &records);
  }
  EXPECT_TRUE(plan_for(records).empty());
}

// A gate that is about to end is renewed at once: its job is ahead of nobody.
TEST(LongQueueTest, AGateThatIsAboutToEndCannotWait) {
  observe::Records records = queue_of_borrowers();
  for (auto& job : records.jobs)
    if (job.id >= 1000) job.begin_s = kNow + 400;
  records.jobs[kTenants + 7].begin_s = kNow + 20;
  const auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), size_t{kJobs - policy::kNearGates + 1});
  EXPECT_EQ(actions[0].job, 1007);
  EXPECT_FALSE(actions[0].can_wait);
  for (size_t i = 1; i < actions.size(); ++i) EXPECT_TRUE(actions[i].can_wait && actions[i].renews);
}

constexpr int kPace = 80;  // while a gate takes 0.2 ms

struct Rounds {
  std::chrono::steady_clock::time_point now{std::chrono::hours(5)};
  GatePace pace;
  Rounds() { pace.took(GatePace::Seconds(0.0002)); }
  // How many gates a round sets that begins so long after the one before, of so many. `meant`: the pause that was
  // meant.
  int after(std::chrono::milliseconds pause, int wanted, size_t jobs = 0, std::chrono::milliseconds meant = {}) {
    now += pause;
    pace.begin(now, jobs, meant);
    int set = 0;
    while (set < wanted && pace.take()) ++set;
    return set;
  }
};

TEST(GatePaceTest, GatesAreSpreadOverManyRoundsAndAPauseSavesNoneUp) {
  using std::chrono::milliseconds;
  Rounds rounds;
  EXPECT_EQ(rounds.after(milliseconds(0), 1000), kPace) << "the first round has as many as a second";
  EXPECT_EQ(rounds.after(milliseconds(0), 900), 0);
  EXPECT_EQ(rounds.after(milliseconds(1000), 900), kPace);
  EXPECT_EQ(rounds.after(milliseconds(100), 800), kPace / 10);
  EXPECT_EQ(rounds.after(std::chrono::hours(1), 790), 2 * kPace);
  int set = 0;
  for (int i = 0; i < 100; ++i) set += rounds.after(milliseconds(30), 500);
  EXPECT_NEAR(set, 3 * kPace, 1) << "short rounds lose nothing";
}

// Looks at a long queue are up to 5 s apart, and an admin's interval may be longer.
TEST(GatePaceTest, ALongerPauseBetweenLooksDoesNotLessenTheGatesOfAMinute) {
  using std::chrono::milliseconds;
  for (const milliseconds meant : {milliseconds(1000), milliseconds(5000), milliseconds(30'000)}) {
    Rounds rounds;
    rounds.after(milliseconds(0), 100'000, 0, meant);
    int set = 0;
    for (milliseconds passed{0}; passed < std::chrono::minutes(10); passed += meant + milliseconds(400))
      set += rounds.after(meant + milliseconds(400), 100'000, 0, meant);  // a look takes a while, too
    EXPECT_GE(set, 10 * 60 * kPace) << meant.count();
  }
  Rounds rounds;
  rounds.after(milliseconds(0), 1000);
  EXPECT_EQ(rounds.after(std::chrono::hours(1), 100'000, 0, milliseconds(5000)), 7 * kPace) << "the daemon was stopped";
}

// A machine that takes five times as long for a gate gets a fifth of them: the share of slurmctld's time is the same.
TEST(GatePaceTest, GatesTakeTheSameShareOfSlurmctldsTimeOnAnyMachine) {
  for (const double gate_s : {0.0003, 0.0005, 0.0008, 0.001}) {
    GatePace pace;
    EXPECT_DOUBLE_EQ(pace.per_second(1000), GatePace::kFirst) << "nothing is known yet";
    for (int i = 0; i < 500; ++i) pace.took(GatePace::Seconds(gate_s));
    EXPECT_NEAR(pace.per_second(1000) * gate_s, GatePace::kShare, 1e-6) << gate_s;
  }
}

TEST(GatePaceTest, OneSlowAnswerChangesThePaceByLittle) {
  GatePace pace;
  for (int i = 0; i < 100; ++i) pace.took(GatePace::Seconds(0.0005));
  const double before = pace.per_second(1000);
  pace.took(GatePace::Seconds(10));
  EXPECT_GT(pace.per_second(1000), 0.9 * before);
}

TEST(GatePaceTest, HoweverSlowSlurmctldIsAllGatesCanBeRenewed) {
  GatePace slow;
  for (int i = 0; i < 500; ++i) slow.took(GatePace::Seconds(1));
  for (const int64_t jobs : {100, 1000, 10'000, 20'000, 50'000}) {
    const int64_t renewals = 2 * policy::kNearGates / policy::kGateS + 2 * jobs / policy::far_gate_s(jobs);
    EXPECT_GE(slow.per_second(static_cast<size_t>(jobs)), static_cast<double>(renewals)) << jobs;
  }
  EXPECT_LE(slow.per_second(10'000'000), GatePace::kMost);
}

TEST(GatePaceTest, AnAnswerInNoTimeDividesByNothing) {
  GatePace pace;
  pace.took(GatePace::Seconds(0));
  EXPECT_DOUBLE_EQ(pace.per_second(0), GatePace::kMost);
}

TEST(LookPaceTest, TheLongerLooksTakeTheLaterTheNextOneComes) {
  using std::chrono::milliseconds;
  const auto pause = [](milliseconds look) {
    LookPace pace;
    for (int i = 0; i < 20; ++i) pace.took(look);
    return pace.pause(milliseconds(1000));
  };
  EXPECT_EQ(pause(milliseconds(0)), milliseconds(1000));
  EXPECT_EQ(pause(milliseconds(17)), milliseconds(1000)) << "a short look changes nothing";
  EXPECT_EQ(pause(milliseconds(70)), milliseconds(4000));
  EXPECT_EQ(pause(milliseconds(20'000)), milliseconds(5000)) << "slurmctld hangs";
}

TEST(LookPaceTest, AFewSlowLooksAndTheAdminsLongerPauseChangeNothing) {
  using std::chrono::milliseconds;
  LookPace pace;
  EXPECT_EQ(pace.pause(milliseconds(1000)), milliseconds(1000)) << "there was no look yet";
  for (int i = 0; i < 8; ++i) pace.took(milliseconds(2));
  for (int i = 0; i < 7; ++i) pace.took(milliseconds(900));
  EXPECT_EQ(pace.pause(milliseconds(1000)), milliseconds(1000)) << "the machine had other work";
  pace.took(milliseconds(900));
  EXPECT_EQ(pace.pause(milliseconds(1000)), milliseconds(5000)) << "the queue is long now";
  EXPECT_EQ(pace.pause(milliseconds(60'000)), milliseconds(60'000));
}

}  // namespace
}  // namespace dl::policyd
