// SPDX-License-Identifier: Apache-2.0
// dlpolicyd ends new jobs that are not admitted: once, with a sentence, and no job that has begun.
#include "slurm-plugin/policyd/dropping.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/policyd_support.h"

namespace dl::policyd::testing {
namespace {

using observe::ClusterView;
using observe::JobRecord;
using observe::Records;
using policy::Charge;

// nlp uses all four GPUs, of its own quota and of what vision lends; job 2 of vision, beyond its quota, and 3 wait.
Records full() {
  Records records = cluster(2, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  add_running(&records, 4, label("vision", 2, Charge::kOwn), "n2", {2});
  policy::JobLabel its = label("vision", 1, Charge::kBorrowed);
  its.learners = LearnerRange{1, 4};
  add_pending(&records, 2, its);
  add_pending(&records, 3, label("nlp", 1, Charge::kBorrowed));
  return records;
}

ClusterView view_of(const Records& records) {
  observe::ViewOptions options;
  options.min_run_s = 0;
  return observe::view_cluster(site(2), records, options);
}

std::vector<Action> actions_of(const Records& records, std::optional<int64_t> after_s) {
  const ClusterView view = view_of(records);
  EXPECT_TRUE(policy::check(view.state));
  const policy::Decision decision = policy::decide(view.state);
  std::vector<Action> actions = needed_actions(view, records, decision, {60, 5});
  put_first(drop_actions(view, records, decision, after_s), &actions);
  return actions;
}

std::vector<Action> drops_of(const Records& records, std::optional<int64_t> after_s = 60) {
  std::vector<Action> drops;
  for (Action& action : actions_of(records, after_s))
    if (action.kind == ActionKind::kDrop) drops.push_back(std::move(action));
  return drops;
}

TEST(PolicydDropping, AJobWithoutRoomIsHeldWithALabelAndEndedAndNothingElseIsDoneAboutIt) {
  const Records records = full();
  EXPECT_TRUE(drops_of(records, std::nullopt).empty());
  const std::vector<Action> all = actions_of(records, 60);
  ASSERT_FALSE(all.empty());
  const Action& drop = all.front();
  EXPECT_EQ(drop.kind, ActionKind::kDrop);
  EXPECT_STREQ(action_name(drop.kind), "drop");
  EXPECT_EQ(drop.job, 2);
  EXPECT_TRUE(drop.end);
  EXPECT_EQ(drop.update.hold, true);
  EXPECT_GT(drop.update.begin_s.value_or(0), kNow);  // which Slurm refuses if it runs
  ASSERT_TRUE(drop.update.admin_comment);
  const auto label = policy::parse_label(*drop.update.admin_comment);
  ASSERT_TRUE(label && label->dropped);
  EXPECT_EQ(*label->dropped, (policy::Dropped{1, 0, kNow}));
  EXPECT_EQ(drop.why,
            "is dropped: it needs 1 GPU at its smallest size, and would have to borrow; if all jobs before it were at "
            "their smallest sizes, 0 would be left (admission = \"drop\" in dl.toml)");
  for (size_t i = 1; i < all.size(); ++i) EXPECT_NE(all[i].job, 2) << action_name(all[i].kind);
}

TEST(PolicydDropping, ADaemonThatTakesOverEndsItAndTheOneThatHasBegunMeanwhileIsLeftAlone) {
  Records records = full();
  JobRecord& job = records.jobs[2];
  job.admin_comment = *drops_of(records).front().update.admin_comment;
  job.wait = observe::Wait::kOther;
  job.held = true;
  for (const std::optional<int64_t> after_s : {std::optional<int64_t>(60), std::optional<int64_t>()}) {
    const std::vector<Action> drops = drops_of(records, after_s);
    ASSERT_EQ(drops.size(), 1U);
    EXPECT_TRUE(drops[0].end && drops[0].update.empty());
  }
  job.phase = observe::JobPhase::kRunning;
  job.nodes = "n1";
  job.gres_by_node = {"gpu:a100:0"};
  EXPECT_TRUE(drops_of(records).empty());
}

TEST(PolicydDropping, NoJobThatHasBegunOrGaveSomethingUp) {
  const auto drops_if = [](const std::function<void(JobRecord*, policy::JobLabel*)>& change) {
    Records records = full();
    policy::JobLabel its = *policy::parse_label(records.jobs[2].admin_comment);
    change(&records.jobs[2], &its);
    records.jobs[2].admin_comment = policy::format_label(its);
    return drops_of(records).size();
  };
  EXPECT_EQ(drops_if([](JobRecord*, policy::JobLabel*) {}), 1U);
  EXPECT_EQ(drops_if([](JobRecord* job, policy::JobLabel*) { job->requeues = 1; }), 0U);
  EXPECT_EQ(drops_if([](JobRecord* job, policy::JobLabel*) { job->comment = "dl:QUEUED attempt=1 dir=/x"; }), 0U);
  EXPECT_EQ(drops_if([](JobRecord*, policy::JobLabel* its) { its->yielded = 9; }), 0U);
  EXPECT_EQ(drops_if([](JobRecord*, policy::JobLabel* its) { its->size = policy::ChosenSize{1, kNow - 99}; }), 0U);
  EXPECT_EQ(drops_if([](JobRecord*, policy::JobLabel* its) { its->shrunk = true; }), 0U);
  EXPECT_EQ(drops_if([](JobRecord*, policy::JobLabel* its) { its->learners = LearnerRange{1, 1}; }), 0U);
  EXPECT_EQ(drops_if([](JobRecord* job, policy::JobLabel*) { job->held = true, job->wait = observe::Wait::kOther; }),
            0U);
}

// Its end had failed, and an operator released it: it ran, and is back in the queue with its work.
TEST(PolicydDropping, OneThatHasBegunSinceIsNotEndedWhenItIsBackInTheQueueAndLosesTheMark) {
  const std::string marked = *drops_of(full()).front().update.admin_comment;
  const auto after = [&](const std::function<void(JobRecord*)>& change, std::optional<int64_t> after_s) {
    Records records = full();
    records.nodes.push_back(cluster(3, 2).nodes.back());
    JobRecord& job = records.jobs[2];
    job.admin_comment = marked;
    change(&job);
    std::optional<policy::JobLabel> its;
    for (const Action& action : actions_of(records, after_s)) {
      if (action.job != 2) continue;
      EXPECT_FALSE(action.end) << action.why;
      if (action.update.admin_comment) its = policy::parse_label(*action.update.admin_comment);
    }
    return its && !its->dropped;
  };
  const auto runs = [](JobRecord* job) {
    job->phase = observe::JobPhase::kRunning;
    job->start_s = kNow - 10;
    job->nodes = "n3";
    job->gres_by_node = {"gpu:a100:1(IDX:0)"};
  };
  for (const std::optional<int64_t> after_s : {std::optional<int64_t>(60), std::optional<int64_t>()}) {
    EXPECT_TRUE(after(runs, after_s)) << "it runs";
    EXPECT_TRUE(after([](JobRecord* job) { job->requeues = 1; }, after_s)) << "preempted";
    EXPECT_TRUE(after(
        [](JobRecord* job) {
          job->requeues = 1;
          job->held = true;
          job->wait = observe::Wait::kOther;
          job->comment = "dl:HALTED attempt=1 dir=/x";
        },
        after_s))
        << "paused";
  }
}

TEST(PolicydDropping, TheLabelIsReadAsItWasWritten) {
  policy::JobLabel its = label("vision", 1, Charge::kOwn);
  its.dropped = policy::Dropped{4, 2, kNow};
  const auto read = policy::parse_label(policy::format_label(its));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->dropped, its.dropped);
  for (const char* wrong :
       {"dropped=", "dropped=4", "dropped=4:2", "dropped=4@2", "dropped=4@2:1", "dropped=0:1@5", "dropped=4:-1@5"})
    EXPECT_FALSE(policy::parse_label(policy::format_label(label("vision", 1, Charge::kOwn)) + " " + wrong)) << wrong;
}

}  // namespace
}  // namespace dl::policyd::testing
