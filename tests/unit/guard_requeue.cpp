// SPDX-License-Identifier: Apache-2.0
// When an agent whose dlrun is gone asks Slurm to put the job back, and when it must not.
#include <gtest/gtest.h>

#include "launcher/guard/requeue.h"

namespace dl::guard {
namespace {

Left healthy() {
  Left left;
  left.job.state = "RUNNING";
  left.job.reason = "None";
  left.job.node_list = "n[1-3]";
  left.job.exit_code = "0:0";
  left.job.batch = left.job.requeue = true;
  left.job.restarts = left.restart_count = 2;
  left.node = "n2";
  left.control_ours = left.newest_attempt = true;
  return left;
}

TEST(GuardRequeue, ARunningJobWhoseDlrunVanished) {
  EXPECT_TRUE(may_requeue(healthy()));
}

TEST(GuardRequeue, NotAnyOther) {
  const struct {
    const char* why;
    void (*change)(Left* left);
  } kRows[] = {
      {"dlrun has ended in good order, or another has taken its place", [](Left* l) { l->control_ours = false; }},
      {"another attempt has begun", [](Left* l) { l->newest_attempt = false; }},
      {"Slurm may not", [](Left* l) { l->job.requeue = false; }},
      {"salloc", [](Left* l) { l->job.batch = false; }},
      {"somebody has put it back", [](Left* l) { l->job.restarts = 3; }},
      {"this node was left out", [](Left* l) { l->job.node_list = "n[1,3]"; }},
      {"its list of nodes cannot be read", [](Left* l) { l->job.node_list = "n[1-"; }},
      {"suspended", [](Left* l) { l->job.state = "SUSPENDED"; }},
      {"put back", [](Left* l) { l->job.state = "PENDING"; }},
      {"put back", [](Left* l) { l->job.state = "REQUEUED"; }},
      {"cancelled", [](Left* l) { l->job.state = "CANCELLED"; }},
      {"time limit", [](Left* l) { l->job.state = "TIMEOUT"; }},
      {"preempted", [](Left* l) { l->job.state = "PREEMPTED"; }},
      {"ended", [](Left* l) { l->job.state = "COMPLETED"; }},
      {"Slurm does it itself", [](Left* l) { l->job.state = "NODE_FAIL"; }},
  };
  for (const auto& row : kRows) {
    Left left = healthy();
    row.change(&left);
    EXPECT_FALSE(may_requeue(left)) << row.why;
  }
}

TEST(GuardRequeue, ACancelledJobIsToldFromOthersThatEnd) {
  const struct {
    const char *state, *reason, *exit_code;
    Cancelled expected;
  } kRows[] = {
      {"COMPLETING", "None", "0:15", Cancelled::kYes},
      {"COMPLETING", "None", "0:9", Cancelled::kYes},  // its script ignores SIGTERM
      {"CANCELLED", "None", "0:0", Cancelled::kYes},
      {"COMPLETING", "None", "0:0", Cancelled::kNotYet},  // Slurm has not heard of the script's end
      {"COMPLETING", "NonZeroExitCode", "137:0", Cancelled::kNo},
      {"COMPLETING", "RaisedSignal:15(Terminated)", "0:15", Cancelled::kNo},
      {"COMPLETING", "TimeLimit", "0:15", Cancelled::kNo},
      {"COMPLETED", "None", "0:0", Cancelled::kNo},
      {"RUNNING", "None", "0:0", Cancelled::kNo},
      {"NODE_FAIL", "NodeDown", "0:0", Cancelled::kNo},
  };
  for (const auto& row : kRows) {
    Left left = healthy();
    left.job.state = row.state, left.job.reason = row.reason, left.job.exit_code = row.exit_code;
    EXPECT_EQ(was_cancelled(left), row.expected) << row.state << " " << row.reason << " " << row.exit_code;
    left.control_ours = false;
    EXPECT_EQ(was_cancelled(left), Cancelled::kNo);
    left.control_ours = true, left.end_recorded = true;
    EXPECT_EQ(was_cancelled(left), Cancelled::kNo);
    left.end_recorded = false, left.job.restarts = 3;
    EXPECT_EQ(was_cancelled(left), Cancelled::kNo);
  }
}

TEST(GuardRequeue, DlrunMayHaveRecordedTheEndBeforeItWasKilled) {
  const auto of = [](int attempt, record::JobState state, std::optional<int> learner = {}) {
    record::Event event;
    event.attempt = attempt, event.state = state, event.learner = learner;
    return event;
  };
  using record::JobState;
  std::vector<record::Event> events;
  EXPECT_FALSE(says_its_end(events, 1));
  events = {of(1, JobState::kDeploy), of(1, JobState::kProcessing), of(1, JobState::kHalted, 0)};
  EXPECT_FALSE(says_its_end(events, 1)) << "only a learner has ended";
  events.push_back(of(1, JobState::kFailed));
  EXPECT_TRUE(says_its_end(events, 1));
  events.push_back(of(1, JobState::kHalted, 1));
  EXPECT_TRUE(says_its_end(events, 1)) << "what follows is about a learner";
  EXPECT_FALSE(says_its_end(events, 2));
  events.push_back(of(2, JobState::kDeploy));
  EXPECT_FALSE(says_its_end(events, 2));
  events.push_back(of(2, JobState::kPending));
  EXPECT_TRUE(says_its_end(events, 2));
}

TEST(GuardRequeue, AJobThatEndedWithTheDeathOfDlrun) {
  const struct {
    const char *reason, *exit_code;
    bool may;
  } kRows[] = {
      {"JobLaunchFailure", "0:9", true},  // `exec dlrun`: the guard was killed
      {"JobLaunchFailure", "1:0", false},
      {"NonZeroExitCode", "0:9", true},
      {"RaisedSignal:9(Killed)", "0:9", true},  // the same from 23.02 on
      {"RaisedSignal:15(Terminated)", "0:15", false},
      {"NonZeroExitCode", "137:0", true},   // the script's last command
      {"NonZeroExitCode", "139:0", true},   // SIGSEGV
      {"NonZeroExitCode", "143:0", false},  // SIGTERM: a wish
      {"NonZeroExitCode", "0:15", false},
      {"NonZeroExitCode", "1:0", false},  // the script decided so
      {"NonZeroExitCode", "76:0", false},
      {"NonZeroExitCode", "", false},
      {"NonZeroExitCode", "137", false},
      {"NonZeroExitCode", "x:y", false},
      {"NonZeroExitCode", "0:-9", false},
      {"None", "0:9", false},  // scancel: the script was killed after KillWait
      {"TimeLimit", "0:9", false},
      {"None", "0:0", false},
  };
  for (const auto& row : kRows)
    for (const char* state : {"COMPLETING", "FAILED"}) {
      Left left = healthy();
      left.job.state = state;
      left.job.reason = row.reason;
      left.job.exit_code = row.exit_code;
      left.job.node_list = "";  // Slurm takes the nodes off one by one
      EXPECT_EQ(may_requeue(left), row.may) << state << " " << row.reason << " " << row.exit_code;
    }
}

TEST(GuardRequeue, ALivingDlrunHasTimeToActFirst) {
  // It notices a lost node within 3.3 s of the cut, and an agent at the earliest 2.5 s after it.
  EXPECT_GE(patience(Door::kSilent).count(), 3300 - 2500 + 2000);
  EXPECT_LT(patience(Door::kClosed), patience(Door::kSilent));
}

}  // namespace
}  // namespace dl::guard
