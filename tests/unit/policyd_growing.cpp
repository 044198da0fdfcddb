// SPDX-License-Identifier: Apache-2.0
// dlpolicyd offers free nodes to running jobs, and knows their companions for what they are.
#include <gtest/gtest.h>

#include <csignal>

#include "common/contract/companion_hint.h"
#include "common/scaling/scale_hint.h"
#include "slurm-plugin/policyd/planner.h"
#include "slurm-plugin/policyd/resizing.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd::testing {
namespace {

using observe::ClusterView;
using observe::JobRecord;
using observe::Records;
using policy::Charge;

// Longer than twenty times what a restart costs the job below.
constexpr int64_t kEveryS = 200;

ClusterView seen_in(const Records& records) {
  observe::ViewOptions options;
  options.min_run_s = 60;
  options.grace_s = 60;
  options.chosen_sizes = true;
  return observe::view_cluster(site(2), records, options);
}

// Job 1 of vision runs with one learner on n1, and may have three; it has measured that.
Records one_that_may_grow() {
  Records records = cluster(4, 1);
  policy::JobLabel its = label("vision", 1, Charge::kOwn);
  its.learners = LearnerRange{1, 3};
  its.min_nodes = 1;
  its.max_nodes = 3;
  JobRecord& job = add_running(&records, 1, its, "n1", {1});
  job.comment = "dl:PROCESSING attempt=1 scale=" + format_scale_hint({5, -1, {{1, 1, 0.5}}}, 1) + " dir=/x/dl-1";
  job.user = "ada";
  return records;
}

JobRecord& add_companion(Records* records, const policy::JobLabel& its, const std::string& node, int64_t id = 2) {
  JobRecord& job = node.empty() ? add_pending(records, id, its) : add_running(records, id, its, node, {1});
  job.comment = companion_hint("1");
  job.licenses.clear();
  job.requeueable = false;
  job.user = "ada";
  return job;
}

policy::JobLabel borrows() {
  policy::JobLabel its = label("vision", 1, Charge::kBorrowed);
  its.tier = Tier::kBorrow;
  its.pausable = false;
  its.back = policy::GiveBack::kEnd;
  return its;
}

std::vector<Action> round(Resizing* resizing, const Records& records, bool in_place = true) {
  ClusterView view = seen_in(records);
  EXPECT_TRUE(policy::check(view.state));
  const NewSizes sizes = resizing->decide(records, &view, kEveryS, in_place);
  return needed_actions(view, records, sizes.decision, {60, 5}, sizes.resizes, sizes.growths);
}

const Action* of_kind(const std::vector<Action>& actions, ActionKind kind) {
  for (const Action& action : actions)
    if (action.kind == kind) return &action;
  return nullptr;
}

TEST(PolicydGrowing, AJobIsOfferedFreeNodesOnceAndStaysWhereItIs) {
  Records records = one_that_may_grow();
  Resizing resizing;
  const std::vector<Action> actions = round(&resizing, records);
  const Action* grow = of_kind(actions, ActionKind::kGrow);
  ASSERT_TRUE(grow != nullptr);
  EXPECT_EQ(grow->job, 1);
  EXPECT_TRUE(grow->signal);
  EXPECT_FALSE(grow->requeue);
  EXPECT_EQ(grow->why, "may grow from 1 to 2 learners: n2 is free");
  ASSERT_TRUE(grow->update.admin_comment);
  const auto its = policy::parse_label(*grow->update.admin_comment);
  ASSERT_TRUE(its);
  EXPECT_EQ(its->grow, (policy::Offer{1, kNow}));
  EXPECT_FALSE(its->yields);
  EXPECT_EQ(of_kind(actions, ActionKind::kResize), nullptr);
  records.jobs[0].admin_comment = *grow->update.admin_comment;
  records.now_s += 1;
  EXPECT_TRUE(round(&resizing, records).empty());
}

TEST(PolicydGrowing, WithoutTheKeyItIsResizedThroughTheQueue) {
  Records records = one_that_may_grow();
  Resizing resizing;
  const std::vector<Action> actions = round(&resizing, records, false);
  EXPECT_EQ(of_kind(actions, ActionKind::kGrow), nullptr);
  EXPECT_NE(of_kind(actions, ActionKind::kResize), nullptr);
}

TEST(PolicydGrowing, WhatComesOfNothingIsNotOfferedAgainButDoneThroughTheQueue) {
  Records records = one_that_may_grow();
  Resizing resizing;
  const std::vector<Action> first = round(&resizing, records);
  ASSERT_NE(of_kind(first, ActionKind::kGrow), nullptr);
  records.jobs[0].admin_comment = *of_kind(first, ActionKind::kGrow)->update.admin_comment;
  records.now_s += kEveryS + 60;
  const std::vector<Action> actions = round(&resizing, records);
  EXPECT_EQ(of_kind(actions, ActionKind::kGrow), nullptr);
  EXPECT_NE(of_kind(actions, ActionKind::kResize), nullptr);
}

TEST(PolicydGrowing, AJobWithACompanionKeepsItsSizeAndRestsWhenThatHasGone) {
  Records records = one_that_may_grow();
  add_companion(&records, borrows(), "n2");
  Resizing resizing;
  EXPECT_TRUE(round(&resizing, records).empty());
  records.jobs.pop_back();
  records.now_s += 5;
  EXPECT_TRUE(round(&resizing, records).empty()) << "it has just lost its companion";
  records.now_s += kEveryS;
  EXPECT_NE(of_kind(round(&resizing, records), ActionKind::kGrow), nullptr);
}

// Such a job has measured how fast it is with its companion.
Records one_that_has_grown() {
  Records records = one_that_may_grow();
  records.jobs[0].comment =
      "dl:PROCESSING attempt=2 scale=" + format_scale_hint({5, -1, {{1, 1, 0.5}, {2, 2, 0.5}}}, 2) + " dir=/x/dl-1";
  add_companion(&records, borrows(), "n2");
  return records;
}

TEST(PolicydGrowing, AJobWithACompanionIsOfferedNodesForAnotherOnceItHasRested) {
  Records records = one_that_has_grown();
  Resizing resizing;
  EXPECT_TRUE(round(&resizing, records).empty()) << "it has just grown";
  records.now_s += kEveryS;
  EXPECT_TRUE(round(&resizing, records, false).empty()) << "dl.toml does not say in-place any more";
  const std::vector<Action> actions = round(&resizing, records);
  const Action* grow = of_kind(actions, ActionKind::kGrow);
  ASSERT_TRUE(grow != nullptr);
  EXPECT_EQ(grow->job, 1);
  EXPECT_EQ(grow->why, "may grow from 2 to 3 learners: n3 is free");
  records.jobs[0].admin_comment = *grow->update.admin_comment;
  EXPECT_EQ(policy::parse_label(records.jobs[0].admin_comment)->grow, (policy::Offer{1, records.now_s}));
  records.now_s += 1;
  EXPECT_TRUE(round(&resizing, records).empty()) << "it is asked once";
  // Now it has three learners, as many as it may.
  add_companion(&records, borrows(), "n3", 5);
  records.now_s += 2 * kEveryS;
  round(&resizing, records);
  records.now_s += 2 * kEveryS;
  EXPECT_TRUE(round(&resizing, records).empty());
}

TEST(PolicydGrowing, WhileACompanionWaitsOrLeavesNoOtherIsOffered) {
  for (const bool waits : {true, false}) {
    Records records = one_that_has_grown();
    if (waits) add_companion(&records, borrows(), "", 5);
    if (!waits) records.jobs[1].phase = observe::JobPhase::kCompleting;
    Resizing resizing;
    round(&resizing, records);
    records.now_s += 2 * kEveryS;
    EXPECT_EQ(of_kind(round(&resizing, records), ActionKind::kGrow), nullptr) << waits;
  }
}

TEST(PolicydGrowing, OfSeveralCompanionsOnlyThoseThatAClaimNeedsAreTakenBack) {
  Records records = one_that_has_grown();
  add_companion(&records, borrows(), "n3", 5);
  add_running(&records, 3, label("nlp", 1, Charge::kOwn), "n4", {1});
  add_pending(&records, 4, label("nlp", 1, Charge::kOwn));
  EXPECT_EQ(seen_in(records).jobs[0].companions, (std::vector<size_t>{1, 2}));
  Resizing resizing;
  int yields = 0;
  for (const Action& action : round(&resizing, records)) {
    if (action.kind != ActionKind::kYield) continue;
    ++yields;
    EXPECT_TRUE(action.job == 2 || action.job == 5) << action.job;
  }
  EXPECT_EQ(yields, 1);
}

TEST(PolicydGrowing, ACompanionIsNotProtectedAndIsTheFirstToGo) {
  Records records = one_that_may_grow();
  JobRecord& companion = add_companion(&records, borrows(), "n2");
  companion.start_s = kNow - 10;
  // A borrower that runs as long as it likes, and has just saved.
  JobRecord& other = add_running(&records, 3, label("vision", 2, Charge::kBorrowed), "n[3-4]", {1, 1});
  other.licenses.clear();
  add_pending(&records, 4, label("nlp", 1, Charge::kOwn));
  const ClusterView view = seen_in(records);
  EXPECT_EQ(view.jobs[0].companions, std::vector<size_t>{1});
  EXPECT_TRUE(view.state.jobs[1].companion);
  EXPECT_EQ(view.state.jobs[1].min_run_s, 0);
  Resizing resizing;
  const std::vector<Action> actions = round(&resizing, records);
  const Action* yields = of_kind(actions, ActionKind::kYield);
  ASSERT_TRUE(yields != nullptr);
  EXPECT_EQ(yields->job, 2);
  EXPECT_FALSE(yields->signal) << "dlrun looks at its companions by itself";
}

TEST(PolicydGrowing, AForgedCommentProtectsNothing) {
  Records records = one_that_may_grow();
  JobRecord& companion = add_companion(&records, borrows(), "n2");
  companion.user = "bob";
  EXPECT_TRUE(seen_in(records).jobs[0].companions.empty()) << "it is another user's";
  companion.user = "ada";
  policy::JobLabel its = borrows();
  its.tier = Tier::kAuto;
  companion.admin_comment = policy::format_label(its);
  const ClusterView view = seen_in(records);
  EXPECT_FALSE(view.state.jobs[1].companion) << "it has not said that it borrows";
  EXPECT_EQ(view.state.jobs[1].min_run_s, 60);
  records.jobs[0].comment = companion_hint("1");
  EXPECT_TRUE(policy::check(seen_in(records).state)) << "a companion of itself";
}

TEST(PolicydGrowing, ACompanionThatWaitsIsABorrowerLikeAnyOther) {
  Records records = one_that_may_grow();
  add_companion(&records, borrows(), "");
  add_pending(&records, 4, label("nlp", 2, Charge::kOwn));
  Resizing resizing;
  const std::vector<Action> actions = round(&resizing, records);
  EXPECT_EQ(of_kind(actions, ActionKind::kGrow), nullptr);
  EXPECT_EQ(of_kind(actions, ActionKind::kResize), nullptr);
  EXPECT_EQ(of_kind(actions, ActionKind::kYield), nullptr);
}

TEST(PolicydGrowing, TheOfferInTheLabelIsReadBack) {
  policy::JobLabel its = borrows();
  EXPECT_EQ(policy::format_label(its).find("grow="), std::string::npos);
  its.grow = policy::Offer{2, kNow};
  const auto read = policy::parse_label(policy::format_label(its));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->grow, its.grow);
  EXPECT_FALSE(policy::parse_label(policy::format_label(borrows()) + " grow=0@1"));
  EXPECT_FALSE(policy::parse_label(policy::format_label(borrows()) + " grow=2"));
}

}  // namespace
}  // namespace dl::policyd::testing
