// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policyd/planner.h"
#include "slurm-plugin/policyd/report.h"
#include "tests/unit/policy_support.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using observe::JobPhase;
using observe::Records;
using policy::Charge;
using testing::add_pending;
using testing::add_running;
using testing::cluster;
using testing::kNow;
using testing::label;
using testing::site;

observe::ViewOptions view_options() {
  observe::ViewOptions options;
  options.gate_s = policy::kGateS;
  return options;
}

std::vector<Action> plan_for(const Records& records, const policy::ClusterState& state = site()) {
  const auto view = observe::view_cluster(state, records, view_options());
  const Status sound = policy::check(view.state);
  EXPECT_TRUE(sound) << sound.error().text;
  return needed_actions(view, records, policy::decide(view.state), {});
}

const Action* action_of(const std::vector<Action>& actions, int64_t job) {
  for (const Action& action : actions)
    if (action.job == job) return &action;
  return nullptr;
}

// What slurmctld does with the updates.
void carry_out(const std::vector<Action>& actions, Records* records) {
  for (const Action& action : actions) {
    for (auto& job : records->jobs) {
      if (job.id != action.job) continue;
      const auto& update = action.update;
      if (update.licenses) job.licenses = *update.licenses;
      if (update.admin_comment) job.admin_comment = *update.admin_comment;
      if (update.begin_s) job.begin_s = *update.begin_s;
      if (update.site_factor) job.site_factor = *update.site_factor;
      if (update.min_nodes) job.min_nodes = *update.min_nodes;
      if (update.max_nodes) job.max_nodes = *update.max_nodes;
      EXPECT_TRUE(!update.min_nodes || (update.max_nodes && *update.min_nodes <= *update.max_nodes));
    }
  }
}

// nlp runs on its own quota and on that of vision, which now claims it.
Records claimed() {
  Records records = cluster(2, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  add_running(&records, 2, label("nlp", 2, Charge::kBorrowed), "n2", {2});
  add_pending(&records, 3, label("vision", 2, Charge::kOwn)).site_factor = 300'000;
  return records;
}

// Of one user's jobs, which slurmctld would start as tokens come free, no more are open than he may hold.
TEST(PlannerTest, GatesOwnJobsBeyondWhatOneUserMayHold) {
  policy::ClusterState state = site(4);
  state.tenants[0].max_user_gpus = 2;
  Records records = cluster(2, 2);
  for (int64_t id = 1; id <= 4; ++id) {
    observe::JobRecord& job = add_pending(&records, id, label("vision", 1, Charge::kOwn));
    job.user = id == 4 ? "bob" : "alice";
    job.begin_s = kNow + 25;  // by job_submit
    job.wait = observe::Wait::kTime;
  }
  auto actions = plan_for(records, state);
  for (const int64_t id : {1, 2, 4}) {
    ASSERT_NE(action_of(actions, id), nullptr) << as_text(actions);
    EXPECT_EQ(action_of(actions, id)->update.begin_s, kNow);
  }
  ASSERT_NE(action_of(actions, 3), nullptr) << as_text(actions);
  EXPECT_EQ(action_of(actions, 3)->update.begin_s, kNow + policy::kGateS);
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records, state).empty()) << as_text(plan_for(records, state));
  // Where none can start, as many stay open as could together.
  add_running(&records, 5, label("nlp", 4, Charge::kOwn), "n1,n2", {2, 2});
  EXPECT_EQ(action_of(plan_for(records, state), 3), nullptr);
  // The elements of an array have one begin time.
  records = cluster(2, 2);
  observe::JobRecord& array = add_pending(&records, 7, label("vision", 1, Charge::kOwn));
  array.array = 7;
  array.elements = "0-3";
  array.user = "alice";
  actions = plan_for(records, state);
  ASSERT_NE(action_of(actions, 7), nullptr) << as_text(actions);
  EXPECT_EQ(action_of(actions, 7)->update.begin_s, kNow + policy::kGateS);
  array.begin_s = kNow + policy::kGateS;
  array.wait = observe::Wait::kTime;
  array.site_factor = 200'000;
  actions = plan_for(records, state);
  ASSERT_EQ(actions.size(), 2U) << as_text(actions);
  for (const Action& action : actions) {
    EXPECT_TRUE(policy::is_element(action.job));
    EXPECT_EQ(action.update.begin_s, kNow);
  }
}

// Of a long queue only the first gates end soon by themselves.
TEST(PlannerTest, RenewsTheGatesFarBackLessOften) {
  Records records = cluster(1, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  for (int64_t id = 2; id < 2 + 3000; ++id)
    add_pending(&records, id, label("vision", 3, Charge::kBorrowed)).begin_s = kNow - 1;
  const auto view = observe::view_cluster(site(), records, view_options());
  const auto actions = needed_actions(view, records, policy::decide(view.state), {});
  ASSERT_EQ(actions.size(), 3000U) << as_text(actions);
  EXPECT_FALSE(action_of(actions, 2)->update.begin_s) << "it is next";
  EXPECT_EQ(action_of(actions, 3)->update.begin_s, kNow + policy::kGateS);
  EXPECT_EQ(action_of(actions, 2 + policy::kNearGates)->update.begin_s, kNow + policy::kGateS);
  EXPECT_EQ(action_of(actions, 3 + policy::kNearGates)->update.begin_s, kNow + 599);
}

TEST(PlannerTest, AsksABorrowerToYieldAndThenWaits) {
  Records records = claimed();
  const auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].kind, ActionKind::kYield);
  EXPECT_EQ(actions[0].job, 2);
  EXPECT_TRUE(actions[0].signal);
  EXPECT_FALSE(actions[0].requeue);
  const auto asked = policy::parse_label(actions[0].update.admin_comment.value());
  ASSERT_TRUE(asked && asked->yields);
  EXPECT_EQ(*asked->yields, (policy::Yield{3, kNow + 120, 0}));
  carry_out(actions, &records);
  for (const int later : {0, 1, 60, 122}) {
    records.now_s = kNow + later;
    EXPECT_TRUE(plan_for(records).empty()) << later << " s later: " << as_text(plan_for(records));
  }
}

TEST(PlannerTest, WhoDoesNotGoByTheDeadlineIsRequeued) {
  Records records = claimed();
  carry_out(plan_for(records), &records);
  records.now_s = kNow + 124;
  const auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].kind, ActionKind::kRequeue);
  EXPECT_TRUE(actions[0].requeue);
  EXPECT_FALSE(actions[0].signal);
}

TEST(PlannerTest, AVictimThatHasGoneWaitsForItsNextTurn) {
  Records records = claimed();
  carry_out(plan_for(records), &records);
  auto& victim = records.jobs[1];
  victim.phase = JobPhase::kCompleting;
  EXPECT_TRUE(plan_for(records).empty());
  victim.phase = JobPhase::kPending;
  victim.nodes.clear();
  victim.gres_by_node.clear();
  victim.begin_s = kNow + 120;  // Slurm's two minutes
  const auto actions = plan_for(records);
  const Action* action = action_of(actions, 2);
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, ActionKind::kReturn);
  EXPECT_EQ(action->update.begin_s, kNow + 2);
  EXPECT_EQ(action->update.licenses, "dl_nlp:2");  // it waits for its tenant's quota, or to be lent GPUs again
  const auto its = policy::parse_label(action->update.admin_comment.value());
  ASSERT_TRUE(its);
  EXPECT_FALSE(its->yields);
  EXPECT_EQ(its->charge, Charge::kOwn);
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records).empty()) << as_text(plan_for(records));
}

TEST(PlannerTest, AClaimThatGoesAwayTakesItsRequestBack) {
  Records records = claimed();
  carry_out(plan_for(records), &records);
  records.jobs.pop_back();
  const auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].kind, ActionKind::kWithdraw);
  EXPECT_FALSE(policy::parse_label(actions[0].update.admin_comment.value())->yields);
  EXPECT_FALSE(actions[0].signal);
}

TEST(PlannerTest, AnotherClaimTakesOverWhatWasAskedForTheFirst) {
  Records records = claimed();
  carry_out(plan_for(records), &records);
  records.jobs.pop_back();
  add_pending(&records, 4, label("vision", 2, Charge::kOwn)).site_factor = 300'000;
  records.now_s = kNow + 30;
  const auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].kind, ActionKind::kYield);
  const auto its = policy::parse_label(actions[0].update.admin_comment.value());
  EXPECT_EQ(*its->yields, (policy::Yield{4, kNow + 120, 0}));  // its time has begun already
}

// Its tenant runs on its whole quota; there are GPUs to be lent.
TEST(PlannerTest, AGuaranteedJobGetsTheTokensOfAJobOfItsTenant) {
  Records records = cluster(2, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  policy::JobLabel guaranteed = label("nlp", 2, Charge::kOwn);
  guaranteed.tier = Tier::kGuaranteed;
  add_pending(&records, 2, guaranteed);
  const auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 2U) << as_text(actions);
  EXPECT_EQ(actions[0].job, 1);
  EXPECT_EQ(actions[0].kind, ActionKind::kCharge);
  EXPECT_EQ(actions[0].update.licenses, "");
  EXPECT_EQ(actions[1].job, 2);
  EXPECT_EQ(actions[1].update.site_factor, 250'000);
  carry_out(actions, &records);
  // Nothing is changed back before Slurm has started it.
  EXPECT_TRUE(plan_for(records).empty()) << as_text(plan_for(records));
}

// No GPU is free: a job of its own tenant gives way, and waits behind it.
TEST(PlannerTest, AGuaranteedJobTakesFromItsOwnTenant) {
  Records records = cluster(2, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  add_running(&records, 2, label("vision", 2, Charge::kOwn), "n2", {2});
  policy::JobLabel guaranteed = label("nlp", 2, Charge::kOwn);
  guaranteed.tier = Tier::kGuaranteed;
  add_pending(&records, 3, guaranteed).site_factor = 300'000;
  auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].job, 1);
  EXPECT_EQ(actions[0].kind, ActionKind::kYield);
  carry_out(actions, &records);
  auto& victim = records.jobs[0];
  victim.phase = JobPhase::kPending;
  victim.nodes.clear();
  victim.gres_by_node.clear();
  actions = plan_for(records);
  const Action* action = action_of(actions, 1);
  ASSERT_TRUE(action) << as_text(actions);
  EXPECT_EQ(policy::parse_label(action->update.admin_comment.value())->yielded, 3);
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records).empty()) << as_text(plan_for(records));
  // The claimant has ended: nothing is left of it in the label.
  records.jobs.pop_back();
  carry_out(plan_for(records), &records);
  EXPECT_FALSE(policy::parse_label(records.jobs[0].admin_comment)->yielded);
  EXPECT_TRUE(plan_for(records).empty()) << as_text(plan_for(records));
}

TEST(PlannerTest, OnlyDlrunIsSignalled) {
  Records records = claimed();
  records.jobs[1].comment = "my own words";
  const auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0].kind, ActionKind::kYield);
  EXPECT_FALSE(actions[0].signal);
}

TEST(PlannerTest, IdleGpusAreLentByChangingTheCharge) {
  Records records = cluster(2, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  auto& job = add_pending(&records, 2, label("nlp", 2, Charge::kOwn));
  job.licenses = "matlab:1,dl_nlp:2";
  auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].update.licenses, "matlab:1");
  EXPECT_EQ(policy::parse_label(actions[0].update.admin_comment.value())->charge, Charge::kBorrowed);
  EXPECT_GT(actions[0].update.site_factor.value(), 0);
  EXPECT_LT(actions[0].update.site_factor.value(), 200'000);
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records).empty()) << as_text(plan_for(records));
}

TEST(PlannerTest, ALimitedBorrowerHoldsBorrowTokens) {
  Records records = cluster(2, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  add_pending(&records, 2, label("nlp", 2, Charge::kOwn));
  auto state = site();
  state.tenants[1].borrow_limit = 2;
  const auto actions = plan_for(records, state);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].update.licenses, "dl_nlp/borrow:2");
}

TEST(PlannerTest, ABorrowedJobBecomesOwnWithoutARestart) {
  Records records = cluster(2, 2);
  add_running(&records, 2, label("nlp", 2, Charge::kBorrowed), "n2", {2});
  const auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].kind, ActionKind::kCharge);
  EXPECT_EQ(actions[0].update.licenses, "dl_nlp:2");
  EXPECT_EQ(policy::parse_label(actions[0].update.admin_comment.value())->charge, Charge::kOwn);
  EXPECT_FALSE(actions[0].signal || actions[0].requeue);
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records).empty()) << as_text(plan_for(records));
}

TEST(PlannerTest, AJobThatDoesNotUseItsGpusGivesItsTokensBackUntilItDoes) {
  Records records = cluster(1, 2);
  observe::JobRecord& job = add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  job.comment = "dl:PROCESSING attempt=1 idle=2@" + std::to_string(kNow - 500) + " dir=/x/dl-1";
  observe::ViewOptions options;
  options.lend_idle = true;
  const auto actions_now = [&] {
    const auto view = observe::view_cluster(site(), records, options);
    return needed_actions(view, records, policy::decide(view.state), {});
  };
  auto actions = actions_now();
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0].kind, ActionKind::kCharge);
  EXPECT_EQ(actions[0].why, "has not used its 2 GPUs for 500 s: they count as lent");
  EXPECT_EQ(*actions[0].update.licenses, "");
  job.licenses = *actions[0].update.licenses;
  job.admin_comment = *actions[0].update.admin_comment;
  EXPECT_TRUE(actions_now().empty());
  job.comment = "dl:PROCESSING attempt=1 dir=/x/dl-1";
  actions = actions_now();
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(*actions[0].update.licenses, "dl_nlp:2");
}

TEST(PlannerTest, TypedQuotaIsUsedBeforeThatForAnyType) {
  Records records = cluster(2, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  auto state = site();
  state.tenants[1].quota.by_type = {1};
  const auto actions = plan_for(records, state);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].update.licenses, "dl_nlp/a100:1,dl_nlp:1");
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records, state).empty());
}

TEST(PlannerTest, AVictimWithoutATypeWaitsForItsTenantsTypedQuotaAgain) {
  Records records = cluster(1, 2);
  add_running(&records, 1, label("vision", 2, Charge::kOwn), "n1", {2});
  add_pending(&records, 2, label("nlp", 2, Charge::kBorrowed));
  auto state = site();
  state.tenants[1].quota = policy::GpuCounts{{2}, 0};
  const auto actions = plan_for(records, state);
  ASSERT_TRUE(action_of(actions, 2)) << as_text(actions);
  EXPECT_EQ(action_of(actions, 2)->update.licenses, "dl_nlp/a100:2");
}

TEST(PlannerTest, ABorrowerWhoseTurnItIsNotWaitsBehindALease) {
  Records records = cluster(1, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  policy::JobLabel borrower = label("vision", 1, Charge::kBorrowed);
  borrower.tier = Tier::kBorrow;
  add_pending(&records, 2, borrower);
  auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].update.begin_s, kNow + 60);
  carry_out(actions, &records);
  records.now_s = kNow + 20;
  EXPECT_TRUE(plan_for(records).empty()) << as_text(plan_for(records));
  records.now_s = kNow + 31;  // renewed in time
  actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].update.begin_s, kNow + 91);
  carry_out(actions, &records);
  records.jobs.erase(records.jobs.begin());  // GPUs are free
  actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].update.begin_s, kNow + 31);
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records).empty()) << as_text(plan_for(records));
}

TEST(PlannerTest, NobodySlipsIntoWhatIsBeingMadeFree) {
  Records records = cluster(2, 2);
  add_running(&records, 1, label("nlp", 1, Charge::kOwn), "n1", {1});
  add_running(&records, 2, label("nlp", 2, Charge::kBorrowed), "n2", {2});
  policy::JobLabel victim = label("nlp", 2, Charge::kBorrowed);
  victim.tier = Tier::kBorrow;
  records.jobs[1].admin_comment = policy::format_label(victim);
  add_pending(&records, 3, label("vision", 1, Charge::kOwn)).site_factor = 200'000;
  policy::JobLabel two = label("vision", 1, Charge::kOwn);
  two.gpus = 2;
  records.jobs[2].admin_comment = policy::format_label(two);
  records.jobs[2].licenses = "dl_vision:2";
  // One GPU is free on n1, which the claim, two on one node, does not need; Slurm would choose where this one goes.
  policy::JobLabel small = label("nlp", 1, Charge::kBorrowed);
  small.tier = Tier::kBorrow;
  add_pending(&records, 4, small);
  const auto actions = plan_for(records);
  ASSERT_TRUE(action_of(actions, 2)) << as_text(actions);
  EXPECT_EQ(action_of(actions, 2)->kind, ActionKind::kYield);
  ASSERT_TRUE(action_of(actions, 4)) << as_text(actions);
  EXPECT_EQ(action_of(actions, 4)->update.begin_s, kNow + 60);
}

// Two claims, one borrower: it is asked once, keeps what both leave it, and is not protected when it is back.
TEST(PlannerTest, AVictimThatWasAskedGivesUpMoreForTheNextClaim) {
  Records records = cluster(4, 1);
  policy::JobLabel elastic = label("nlp", 1, Charge::kBorrowed);
  elastic.learners = LearnerRange{1, 4};
  elastic.tier = Tier::kBorrow;
  add_running(&records, 1, elastic, "n[1-4]", {1, 1, 1, 1});
  add_pending(&records, 2, label("vision", 1, Charge::kOwn)).site_factor = 300'000;
  carry_out(plan_for(records), &records);
  EXPECT_TRUE(observe::view_cluster(site(), records, view_options()).state.jobs[1].promised);
  EXPECT_TRUE(plan_for(records).empty()) << as_text(plan_for(records));
  add_pending(&records, 3, label("vision", 1, Charge::kOwn)).site_factor = 300'000;
  records.now_s = kNow + 10;
  const auto actions = plan_for(records);
  const Action* action = action_of(actions, 1);
  ASSERT_TRUE(action) << as_text(actions);
  EXPECT_EQ(action->kind, ActionKind::kYield);
  EXPECT_FALSE(action->signal) << "it saves already";
  EXPECT_EQ(*policy::parse_label(action->update.admin_comment.value())->yields, (policy::Yield{2, kNow + 120, 2}));
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records).empty()) << as_text(plan_for(records));
  auto& gone = records.jobs[0];
  gone.phase = JobPhase::kPending;
  gone.nodes.clear();
  gone.gres_by_node.clear();
  carry_out(plan_for(records), &records);
  EXPECT_TRUE(policy::parse_label(gone.admin_comment)->shrunk);
}

TEST(PlannerTest, AnElasticVictimComesBackSmaller) {
  Records records = cluster(4, 1);
  policy::JobLabel elastic = label("nlp", 1, Charge::kBorrowed);
  elastic.learners = LearnerRange{1, 4};
  elastic.min_nodes = 1;
  elastic.max_nodes = 4;
  elastic.tier = Tier::kBorrow;
  auto& job = add_running(&records, 1, elastic, "n[1-4]", {1, 1, 1, 1});
  job.node_gpus = 1;
  job.max_nodes = 4;
  add_pending(&records, 2, label("vision", 2, Charge::kOwn)).site_factor = 300'000;
  auto actions = plan_for(records);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(policy::parse_label(actions[0].update.admin_comment.value())->yields->learners, 2);
  carry_out(actions, &records);
  auto& gone = records.jobs[0];
  gone.phase = JobPhase::kPending;
  gone.nodes.clear();
  gone.gres_by_node.clear();
  actions = plan_for(records);
  ASSERT_TRUE(action_of(actions, 1)) << as_text(actions);
  EXPECT_EQ(action_of(actions, 1)->update.max_nodes, 2U) << as_text(actions);
  EXPECT_EQ(action_of(actions, 1)->update.min_nodes, 2U) << "Slurm would start it on one";
}

// Slurm starts it once its victim has gone, maybe before anything is decided anew.
TEST(PlannerTest, AnElasticClaimBesideAnotherStartsAtItsSmallest) {
  Records records = cluster(3, 2);
  for (int node = 1; node <= 3; ++node)
    add_running(&records, node, label("nlp", 2, Charge::kBorrowed), "n" + std::to_string(node), {2});
  policy::JobLabel elastic = label("vision", 2, Charge::kOwn);
  elastic.learners = LearnerRange{2, 4};
  elastic.min_nodes = 1;
  elastic.max_nodes = 2;
  auto& claim = add_pending(&records, 4, elastic);
  claim.max_nodes = 2;
  claim.node_gpus = 2;
  add_pending(&records, 5, label("vision", 2, Charge::kOwn));
  policy::ClusterState state = site(4);
  state.tenants[1].quota.any = 2;
  auto actions = plan_for(records, state);
  ASSERT_TRUE(action_of(actions, 4)) << as_text(actions);
  EXPECT_EQ(action_of(actions, 4)->update.max_nodes, 1U);
  carry_out(actions, &records);
  EXPECT_EQ(records.jobs[3].licenses, "dl_vision:2");
  EXPECT_TRUE(plan_for(records, state).empty()) << as_text(plan_for(records, state));
  // Nobody else waits any more: it may have what its victims leave.
  records.jobs.pop_back();
  actions = plan_for(records, state);
  ASSERT_TRUE(action_of(actions, 4)) << as_text(actions);
  EXPECT_EQ(action_of(actions, 4)->update.max_nodes, 2U);
}

// Slurm chooses the nodes; how many it chooses, the decision says.
TEST(PlannerTest, HandsThePlacementOverAsANumberOfNodes) {
  Records records = cluster(3, 2);
  for (int node = 1; node <= 2; ++node)
    add_running(&records, node, label("nlp", 1, Charge::kBorrowed), "n" + std::to_string(node), {1});
  policy::JobLabel packed = label("vision", 2, Charge::kOwn);
  packed.min_nodes = 1;
  packed.max_nodes = 2;
  add_pending(&records, 3, packed).max_nodes = 2;
  auto actions = plan_for(records);
  ASSERT_TRUE(action_of(actions, 3)) << as_text(actions);
  EXPECT_EQ(action_of(actions, 3)->update.max_nodes, 1U) << "n3 has room for both";
  EXPECT_FALSE(action_of(actions, 3)->update.min_nodes);

  policy::JobLabel spread = label("vision", 2, Charge::kOwn);
  spread.placement = policy::Placement::kSpread;
  spread.min_nodes = 1;
  spread.max_nodes = 2;
  records.jobs.resize(2);
  for (observe::JobRecord& job : records.jobs) job.gres_by_node = {"gpu:a100:2(IDX:0-1)"};
  for (int node = 1; node <= 2; ++node)
    records.jobs[node - 1].admin_comment = policy::format_label(label("nlp", 2, Charge::kBorrowed));
  add_pending(&records, 4, spread).max_nodes = 2;
  actions = plan_for(records);
  ASSERT_TRUE(action_of(actions, 4)) << as_text(actions);
  EXPECT_EQ(action_of(actions, 4)->update.min_nodes, 1U) << "one node is all there is";
  EXPECT_EQ(action_of(actions, 4)->update.max_nodes, 1U);
}

Records random_records(policy::testing::Dice* dice) {
  Records records = cluster(dice->from(1, 4), 2);
  std::vector<int> free(records.nodes.size(), 2);
  for (int64_t id = 1; id <= dice->from(1, 8); ++id) {
    policy::JobLabel its =
        label(dice->one_in(2) ? "vision" : "nlp", 1, dice->one_in(2) ? Charge::kOwn : Charge::kBorrowed);
    its.gpus = dice->from(1, 2);
    if (dice->one_in(4)) its.tier = Tier::kBorrow;
    if (dice->one_in(6)) its.tier = Tier::kGuaranteed;
    if (dice->one_in(3)) its.type = "a100";
    const size_t node = static_cast<size_t>(dice->from(0, static_cast<int>(free.size()) - 1));
    if (dice->one_in(2) && free[node] >= its.gpus) {
      free[node] -= its.gpus;
      add_running(&records, id, its, records.nodes[node].name, {its.gpus});
    } else {
      add_pending(&records, id, its);
    }
  }
  return records;
}

// Whatever is seen: what was carried out is not done again, and nothing is undone in turn.
TEST(PlannerTest, OnceCarriedOutThereIsNothingLeftToDo) {
  policy::testing::Dice dice(11);
  int reclaims = 0;
  for (int round = 0; round < 3000; ++round) {
    Records records = random_records(&dice);
    // A promise, once it is seen, may change what its tenant's jobs are charged as: one round more.
    for (int step = 0; step < 5; ++step) {
      const auto actions = plan_for(records);
      carry_out(actions, &records);
      for (const Action& action : actions) reclaims += action.kind == ActionKind::kYield ? 1 : 0;
      if (actions.empty()) break;
      ASSERT_LT(step, 4) << "round " << round << ": " << as_text(actions);
    }
  }
  EXPECT_GT(reclaims, 100);
}

// A round carries out only so much of a long plan.
TEST(PlannerTest, PieceByPieceItComesToAnEndToo) {
  policy::testing::Dice dice(12);
  int pieces = 0;
  for (int round = 0; round < 1000; ++round) {
    Records records = random_records(&dice);
    for (int step = 0;; ++step) {
      auto actions = plan_for(records);
      if (actions.empty()) break;
      ASSERT_LT(step, 40) << "round " << round << ": " << as_text(actions);
      const auto place = [](const Action& action) {
        if (action.kind != ActionKind::kOrder) return 0;
        return action.update.site_factor || action.update.licenses ? 1 : 2;
      };
      ASSERT_TRUE(std::is_sorted(actions.begin(), actions.end(), [&](const Action& a, const Action& b) {
        return place(a) < place(b);
      })) << as_text(actions);
      if (actions.size() > 1) {
        actions.resize(1);
        ++pieces;
      }
      carry_out(actions, &records);
    }
  }
  EXPECT_GT(pieces, 1000);
}

}  // namespace
}  // namespace dl::policyd
