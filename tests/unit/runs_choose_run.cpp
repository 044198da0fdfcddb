// SPDX-License-Identifier: Apache-2.0
// Which job directory a dlrun works in, of several that its job has, and what is not run again after a requeue.
#include <gtest/gtest.h>

#include "launcher/runs/choose_run.h"

namespace dl::runs {
namespace {

using record::Event;
using record::JobState;

const RunIdentity kA{"aaaaaaaaaaaaaaaa", "0000000000000001"};
const RunIdentity kAElsewhere{"aaaaaaaaaaaaaaaa", "0000000000000002"};
const RunIdentity kB{"bbbbbbbbbbbbbbbb", "0000000000000001"};

Event event(JobState state, const RunIdentity& identity, int start, int attempt = 1) {
  Event made;
  made.state = state;
  made.run = identity.text();
  made.start = start;
  made.attempt = attempt;
  return made;
}
Event begun(const RunIdentity& identity, int start) {
  return event(JobState::kDeploy, identity, start);
}
Event completed(const RunIdentity& identity, int start) {
  Event made = event(JobState::kCompleted, identity, start);
  made.exit = 0;
  return made;
}
Event passed(const RunIdentity& identity, int start) {
  Event made = completed(identity, start);
  made.passed = true;
  return made;
}
PastRun past(int number, std::vector<Event> events, bool in_use = false) {
  return {number, in_use, std::move(events)};
}

TEST(ChooseRun, the_first_dlrun_of_a_job_is_run_1) {
  EXPECT_EQ(choose_run({}, kA, 0).number, 1);
  EXPECT_EQ(choose_run({past(1, {})}, kA, 0).number, 1) << "dlctl may have asked for a pause there before";
}

TEST(ChooseRun, another_command_gets_another_directory) {
  EXPECT_EQ(choose_run({past(1, {begun(kA, 0)}, true)}, kB, 0).number, 2) << "at once";
  EXPECT_EQ(choose_run({past(1, {begun(kA, 0), completed(kA, 0)})}, kB, 0).number, 2) << "one after the other";
  EXPECT_EQ(choose_run({past(1, {begun(kA, 0)}, true), past(3, {begun(kAElsewhere, 0)}, true)}, kB, 0).number, 4);
}

TEST(ChooseRun, the_same_command_at_once_gets_another_directory) {
  EXPECT_EQ(choose_run({past(1, {begun(kA, 0)}, true)}, kA, 0).number, 2);
}

TEST(ChooseRun, the_same_command_once_more_is_another_attempt) {
  const Choice choice = choose_run({past(1, {begun(kA, 0), completed(kA, 0)})}, kA, 0);
  EXPECT_EQ(choice.number, 1);
  EXPECT_FALSE(choice.completed) << "a loop in the script";
}

TEST(ChooseRun, each_finds_its_directory_again_after_a_requeue_in_any_order) {
  const std::vector<PastRun> two = {past(1, {begun(kA, 0)}), past(2, {begun(kB, 0)})};
  EXPECT_EQ(choose_run(two, kB, 1).number, 2);
  EXPECT_EQ(choose_run(two, kA, 1).number, 1);
}

TEST(ChooseRun, what_completed_in_an_earlier_start_is_not_run_again) {
  const Choice choice = choose_run({past(1, {begun(kA, 0), completed(kA, 0)})}, kA, 1);
  EXPECT_EQ(choice.number, 1);
  ASSERT_TRUE(choice.completed);
  EXPECT_EQ(choice.completed->exit, 0);
}

TEST(ChooseRun, what_completed_in_another_environment_is_run_again) {
  // SEED=1 dlrun ... ; SEED=2 dlrun ...: the same words, another run.
  const Choice choice = choose_run({past(1, {begun(kA, 0), completed(kA, 0)})}, kAElsewhere, 1);
  EXPECT_FALSE(choice.completed);
}

TEST(ChooseRun, a_loop_is_passed_over_as_often_as_it_completed) {
  std::vector<Event> events = {begun(kA, 0), completed(kA, 0), begun(kA, 0), completed(kA, 0), begun(kA, 0)};
  EXPECT_TRUE(choose_run({past(1, events)}, kA, 1).completed);
  events.push_back(passed(kA, 1));
  EXPECT_TRUE(choose_run({past(1, events)}, kA, 1).completed);
  events.push_back(passed(kA, 1));
  EXPECT_FALSE(choose_run({past(1, events)}, kA, 1).completed) << "the third was interrupted";
  EXPECT_EQ(choose_run({past(1, events)}, kA, 1).number, 1);
  // And in the start after that, where the third has completed.
  events.push_back(begun(kA, 1));
  events.push_back(completed(kA, 1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(choose_run({past(1, events)}, kA, 2).completed) << i;
    events.push_back(passed(kA, 2));
  }
  EXPECT_FALSE(choose_run({past(1, events)}, kA, 2).completed);
}

TEST(ChooseRun, of_two_alike_the_one_that_completed_is_passed_over_and_the_other_goes_on) {
  std::vector<PastRun> two = {past(1, {begun(kA, 0), completed(kA, 0)}), past(2, {begun(kA, 0)})};
  EXPECT_EQ(choose_run(two, kA, 1).number, 1);
  two[0].events.push_back(passed(kA, 1));
  const Choice second = choose_run(two, kA, 1);
  EXPECT_EQ(second.number, 2);
  EXPECT_FALSE(second.completed);
}

TEST(ChooseRun, a_failure_is_tried_again) {
  const Choice choice = choose_run({past(1, {begun(kA, 0), event(JobState::kFailed, kA, 0)})}, kA, 1);
  EXPECT_EQ(choice.number, 1);
  EXPECT_FALSE(choice.completed);
}

TEST(ChooseRun, a_record_of_an_older_dlrun_says_nothing_of_a_completion) {
  Event old;
  old.state = JobState::kCompleted;
  old.attempt = 1;
  const Choice choice = choose_run({past(1, {old})}, kA, 1);
  EXPECT_EQ(choice.number, 1);
  EXPECT_FALSE(choice.completed);
}

TEST(RunIdentity, is_read_back_and_nothing_else_is) {
  EXPECT_EQ(parse_identity(kA.text()), kA);
  for (const char* text :
       {"", "-", "aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa-000000000000000g", "AAAAAAAAAAAAAAAA-0000000000000001"})
    EXPECT_TRUE(parse_identity(text).what.empty()) << text;
}

TEST(RunIdentity, tells_commands_folders_checkpoints_and_variables_apart_and_overlooks_what_each_start_sets_anew) {
  plan::LaunchPlan plan;
  plan.command = {"python3", "train.py"};
  plan.work_dir = "/x";
  const plan::Environment around = {{"SEED", "1"}, {"SLURM_JOB_ID", "1"}, {"SLURMD_NODENAME", "n1"}, {"DL_GPUS", "1"}};
  const RunIdentity identity = identify(plan, around);
  EXPECT_EQ(identify(plan, {{"SEED", "1"}, {"SLURM_JOB_ID", "2"}, {"TMPDIR", "/tmp/job"}}), identity);
  EXPECT_NE(identify(plan, {{"SEED", "2"}}).environment, identity.environment);
  EXPECT_EQ(identify(plan, {{"SEED", "2"}}).what, identity.what);
  plan::LaunchPlan other = plan;
  other.command = {"python3train.py"};
  EXPECT_NE(identify(other, around).what, identity.what);
  other = plan;
  other.work_dir = "/y";
  EXPECT_NE(identify(other, around).what, identity.what);
  other = plan;
  other.checkpoint = CheckpointSpec{};
  other.checkpoint->path = "/x/ck";
  EXPECT_NE(identify(other, around).what, identity.what);
}

}  // namespace
}  // namespace dl::runs
