// SPDX-License-Identifier: Apache-2.0
// Which state is shown: Slurm's word and the record, in all combinations that happen.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "launcher/ctl/job_view.h"
#include "launcher/ctl/shown_state.h"
#include "launcher/ctl/start_delay.h"
#include "launcher/ctl/wait_reason.h"

namespace dl::ctl {
namespace {

using record::JobState;
using slurm_cli::JobInfo;

JobInfo slurm(const std::string& state, const std::string& reason = "None", bool held = false) {
  JobInfo info;
  info.job_id = "12";
  info.state = state;
  info.reason = reason;
  info.held = held;
  info.submit_time = 100;
  info.start_time = 1000;
  info.end_time = 2000;
  return info;
}

record::JobSummary recorded(JobState state, int64_t since_ms, const std::string& reason = "because") {
  record::JobSummary summary;
  summary.attempts = 1;
  summary.state = state;
  summary.state_since_ms = since_ms;
  summary.reason = reason;
  return summary;
}

JobState state_of(const JobInfo& info, const record::JobSummary& summary = {}) {
  return shown_state(info, std::nullopt, summary, false).state;
}

TEST(ShownState, WaitingIsQueuedForAQuotaAndPendingElse) {
  EXPECT_EQ(state_of(slurm("PENDING", "Resources")), JobState::kPending);
  EXPECT_EQ(state_of(slurm("PENDING", "Priority")), JobState::kPending);
  EXPECT_EQ(state_of(slurm("PENDING", "QOSGrpGRES")), JobState::kQueued);
  EXPECT_EQ(state_of(slurm("PENDING", "AssocGrpGRES")), JobState::kQueued);
  EXPECT_EQ(state_of(slurm("PENDING", "QOSMaxJobsPerUserLimit")), JobState::kQueued);
  EXPECT_EQ(state_of(slurm("PENDING", "Licenses")), JobState::kQueued);
  EXPECT_EQ(state_of(slurm("PENDING", "QOSNotAllowed")), JobState::kPending);
  EXPECT_EQ(state_of(slurm("PENDING", "BeginTime"), recorded(JobState::kPending, 5)), JobState::kPending);
}

TEST(ShownState, HaltedIsPausedAndHeld) {
  const auto halted = recorded(JobState::kHalted, 1500000, "paused");
  const ShownState shown = shown_state(slurm("PENDING", "JobHeldUser", true), std::nullopt, halted, false);
  EXPECT_EQ(shown.state, JobState::kHalted);
  EXPECT_EQ(shown.reason, "paused");
  EXPECT_EQ(shown.since_ms, 1500000);
  EXPECT_EQ(state_of(slurm("PENDING", "job requeued in held state"), halted), JobState::kHalted);
  // Released, and waiting for its turn: no longer halted.
  EXPECT_EQ(state_of(slurm("PENDING", "Resources"), halted), JobState::kPending);
  // Held before it ever ran.
  EXPECT_EQ(state_of(slurm("PENDING", "JobHeldUser", true)), JobState::kPending);
}

TEST(ShownState, RunningFollowsTheRecordOfThisStart) {
  EXPECT_EQ(state_of(slurm("RUNNING")), JobState::kDeploy);
  EXPECT_EQ(state_of(slurm("RUNNING"), recorded(JobState::kProcessing, 1001000)), JobState::kProcessing);
  EXPECT_EQ(state_of(slurm("RUNNING"), recorded(JobState::kCompleted, 1500000)), JobState::kCompleted);
  // What an earlier start left behind is not the state of this one.
  EXPECT_EQ(state_of(slurm("RUNNING"), recorded(JobState::kHalted, 999000)), JobState::kDeploy);
  EXPECT_EQ(state_of(slurm("RUNNING"), recorded(JobState::kPending, 999000)), JobState::kDeploy);
  // Its processes stand still, which its own record cannot say.
  const ShownState still =
      shown_state(slurm("SUSPENDED"), std::nullopt, recorded(JobState::kProcessing, 1001000), false);
  EXPECT_EQ(still.state, JobState::kProcessing);
  EXPECT_EQ(still.reason.rfind("suspended, by a person or for another job", 0), 0U) << still.reason;
}

TEST(ShownState, EndedIsTheRecordsWordOrElseSlurms) {
  EXPECT_EQ(state_of(slurm("COMPLETED"), recorded(JobState::kCompleted, 1500000)), JobState::kCompleted);
  EXPECT_EQ(state_of(slurm("FAILED"), recorded(JobState::kFailed, 1500000)), JobState::kFailed);
  EXPECT_EQ(state_of(slurm("COMPLETED")), JobState::kCompleted);
  for (const char* end : {"TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"}) {
    const ShownState shown = shown_state(slurm(end), std::nullopt, recorded(JobState::kProcessing, 1001000), false);
    EXPECT_EQ(shown.state, JobState::kFailed) << end;
    EXPECT_EQ(shown.reason, std::string("Slurm ended it: ") + end);
  }
  EXPECT_EQ(state_of(slurm("CANCELLED"), recorded(JobState::kHalted, 1500000)), JobState::kFailed);
  EXPECT_STREQ(shown_name(shown_state(slurm("TIMEOUT"), std::nullopt, {}, false)), "FAILED");
  // The batch script failed, and dlrun had no last word: it was killed.
  const ShownState killed = shown_state(slurm("FAILED"), std::nullopt, recorded(JobState::kProcessing, 1001000), false);
  EXPECT_EQ(killed.state, JobState::kFailed);
  EXPECT_EQ(killed.reason, "dlrun was killed, or its node was lost, while the job was in state PROCESSING");
  EXPECT_EQ(shown_state(slurm("FAILED"), std::nullopt, {}, false).reason, "Slurm ended it: FAILED");
  slurm_cli::JobInfo signalled = slurm("FAILED");
  signalled.exit_code = "0:15";
  EXPECT_EQ(shown_state(signalled, std::nullopt, recorded(JobState::kProcessing, 1001000), false).reason,
            "signal 15 ended the batch script, and dlrun with it, while the job was in state PROCESSING");
}

TEST(ShownState, ACancelledJobIsShownAsSuch) {
  const ShownState before = shown_state(slurm("CANCELLED by 0"), std::nullopt, {}, false);
  EXPECT_EQ(before.state, JobState::kFailed);
  EXPECT_STREQ(shown_name(before), "CANCELLED");
  EXPECT_EQ(before.reason, "cancelled, by its user or an operator");
  record::JobSummary summary = recorded(JobState::kFailed, 1500000);
  summary.reason = "cancelled: not saved: the job was cancelled";
  for (const auto& info : {std::optional(slurm("CANCELLED")), std::optional<slurm_cli::JobInfo>()})
    EXPECT_STREQ(shown_name(shown_state(info, std::nullopt, summary, false)), "CANCELLED");
  // Slurm calls it cancelled only because its script was ended with it; the learner had failed before.
  summary.reason = "learner 0 exited with code 1";
  EXPECT_STREQ(shown_name(shown_state(slurm("CANCELLED"), std::nullopt, summary, false)), "FAILED");
}

// Every newest state of a record, and everything that Slurm can say of a job that is not in its queue.
TEST(ShownState, OfAnEndedJobForEachRecordAndEachWordOfSlurms) {
  const auto with = [](JobState state, const std::string& reason = "its reason") {
    return recorded(state, 1500000, reason);
  };
  record::JobSummary failed = with(JobState::kFailed), failed_before = failed, failed_once_more = failed;
  failed.start = 1;
  failed_before.start = 0;
  failed_once_more.start = 0;
  failed_once_more.once_more = 1;
  record::JobSummary cancelled_before = with(JobState::kFailed, "cancelled: not saved");
  cancelled_before.start = 0;
  record::JobSummary completed_before = with(JobState::kCompleted);
  completed_before.start = 0;
  struct Row {
    const char* what;
    record::JobSummary record;
    const char *cancelled, *timeout, *completed;  // what is shown if Slurm says that
    const char *gone, *accounted;                 // ... if it does not know the job; if its accounting says CANCELLED
  };
  const Row rows[] = {
      {"nothing", {}, "CANCELLED", "FAILED", "COMPLETED", "PENDING", "CANCELLED"},
      {"put back", with(JobState::kPending), "CANCELLED", "FAILED", "COMPLETED", "CANCELLED", "CANCELLED"},
      {"no last word", with(JobState::kDeploy), "CANCELLED", "FAILED", "COMPLETED", "FAILED", "CANCELLED"},
      {"no last word", with(JobState::kDownloading), "CANCELLED", "FAILED", "COMPLETED", "FAILED", "CANCELLED"},
      {"no last word", with(JobState::kProcessing), "CANCELLED", "FAILED", "COMPLETED", "FAILED", "CANCELLED"},
      {"no last word", with(JobState::kStoring), "CANCELLED", "FAILED", "COMPLETED", "FAILED", "CANCELLED"},
      {"paused", with(JobState::kHalted), "CANCELLED", "FAILED", "COMPLETED", "HALTED", "CANCELLED"},
      {"failed", failed, "FAILED", "FAILED", "FAILED", "FAILED", "FAILED"},
      {"failed, start unknown", with(JobState::kFailed), "FAILED", "FAILED", "FAILED", "FAILED", "FAILED"},
      {"failed, put back", failed_before, "CANCELLED", "FAILED", "COMPLETED", "FAILED", "FAILED"},
      {"failed, put back by Slurm to run nothing", failed_once_more, "FAILED", "FAILED", "FAILED", "FAILED", "FAILED"},
      {"cancelled", with(JobState::kFailed, "cancelled: not saved"), "CANCELLED", "CANCELLED", "CANCELLED", "CANCELLED",
       "CANCELLED"},
      {"cancelled, put back", cancelled_before, "CANCELLED", "FAILED", "COMPLETED", "CANCELLED", "CANCELLED"},
      {"completed", with(JobState::kCompleted), "COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED"},
      {"completed, put back", completed_before, "COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED"},
  };
  for (const Row& row : rows) {
    const auto shows = [&](const char* slurms) {
      JobInfo info = slurm(slurms);
      info.restarts = 1;
      return std::string(shown_name(shown_state(info, std::nullopt, row.record, false)));
    };
    const auto forgotten = [&](const char* accounted) {
      return std::string(shown_name(shown_state(std::nullopt, std::nullopt, row.record, false, accounted)));
    };
    EXPECT_EQ(shows("CANCELLED"), row.cancelled) << row.what;
    for (const char* end : {"TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "PREEMPTED", "DEADLINE", "FAILED"})
      EXPECT_EQ(shows(end), row.timeout) << row.what << ", " << end;
    EXPECT_EQ(shows("COMPLETED"), row.completed) << row.what;
    EXPECT_EQ(forgotten(""), row.gone) << row.what;
    EXPECT_EQ(forgotten("CANCELLED by 1000"), row.accounted) << row.what;
    // Slurm was not asked: what was put back may wait still.
    const bool waits = row.record.state == JobState::kPending;
    EXPECT_EQ(shown_name(shown_state(std::nullopt, std::nullopt, row.record, false)),
              std::string(waits ? "PENDING" : row.gone))
        << row.what;
  }
}

TEST(ShownState, WhatCameBeforeIsTold) {
  const auto reason = [](const std::optional<JobInfo>& info, JobState state, const char* why,
                         const std::optional<std::string>& forgotten = std::nullopt) {
    return shown_state(info, std::nullopt, recorded(state, 1500000, why), false, forgotten).reason;
  };
  EXPECT_EQ(reason(slurm("CANCELLED"), JobState::kHalted, "paused: saved at train step 7"),
            "cancelled, by its user or an operator; before: paused: saved at train step 7");
  EXPECT_EQ(reason(slurm("TIMEOUT"), JobState::kPending, "time limit: not saved"),
            "Slurm ended it: TIMEOUT; before: time limit: not saved");
  EXPECT_EQ(reason(slurm("TIMEOUT"), JobState::kProcessing, "all learners run"), "Slurm ended it: TIMEOUT");
  EXPECT_EQ(reason(std::nullopt, JobState::kPending, "put back", ""),
            "no longer in Slurm: cancelled, or ended before dlrun ran again; before: put back");
  EXPECT_EQ(reason(std::nullopt, JobState::kHalted, "paused", ""), "no longer in Slurm; before: paused");
  EXPECT_EQ(reason(std::nullopt, JobState::kHalted, "paused"), "paused") << "Slurm was not asked";
}

TEST(ShownState, WithoutSlurmTheRecordCountsIfDlrunLives) {
  const auto running = recorded(JobState::kProcessing, 7);
  EXPECT_EQ(shown_state(std::nullopt, std::nullopt, running, true).state, JobState::kProcessing);
  const ShownState gone = shown_state(std::nullopt, std::nullopt, running, false);
  EXPECT_EQ(gone.state, JobState::kFailed);
  EXPECT_EQ(gone.reason, "dlrun was killed, or its node was lost, while the job was in state PROCESSING");
  EXPECT_EQ(shown_state(std::nullopt, std::nullopt, recorded(JobState::kHalted, 7), false).state, JobState::kHalted);
  EXPECT_EQ(shown_state(std::nullopt, std::nullopt, {}, false).state, JobState::kPending);
}

TEST(ShownState, TheCommentStandsInForARecordThatCannotBeRead) {
  record::JobComment comment;
  comment.state = JobState::kProcessing;
  comment.attempt = 3;
  comment.reason = "all learners run";
  EXPECT_EQ(shown_state(slurm("RUNNING"), comment, {}, false).state, JobState::kProcessing);
  comment.state = JobState::kHalted;
  EXPECT_EQ(shown_state(slurm("PENDING", "JobHeldUser", true), comment, {}, false).state, JobState::kHalted);
}

TEST(ShownState, ReasonsAreExplained) {
  EXPECT_EQ(explain_reason("QOSGrpGRES"), "the quota is used up (QOSGrpGRES)");
  EXPECT_EQ(explain_reason("Resources"), "waiting for free nodes or GPUs (Resources)");
  EXPECT_EQ(explain_reason("None"), "not looked at by the scheduler yet");
  EXPECT_EQ(explain_reason("SomethingNew"), "SomethingNew");
}

// Of several dlruns of a job that was told to pause.
// With umask 777 nobody but root can read what dlrun wrote.
TEST(ViewJob, ARecordThatCannotBeReadTellsNoState) {
  char folder[] = "/tmp/ctl-state-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  Job job;
  job.id = "local-1";
  job.local = true;
  job.dir = record::JobDir(folder);
  EXPECT_STREQ(shown_name(view_job(job, false).shown), "PENDING") << "nothing is there yet";
  std::filesystem::create_directory(job.dir.events());  // which root cannot read either
  const ShownState shown = view_job(job, false).shown;
  EXPECT_STREQ(shown_name(shown), "UNKNOWN");
  EXPECT_EQ(shown.reason.rfind("its record cannot be read: ", 0), 0U) << shown.reason;
  std::filesystem::remove_all(folder);
}

TEST(Rest, ARunThatHasEndedBeforeDoesNotSpeakForThoseThatArePaused) {
  const JobInfo held = slurm("PENDING", "JobHeldUser", true);
  const auto word = [](const JobInfo& info, JobState state, int64_t since_ms) {
    const auto summary = recorded(state, since_ms);
    return RunWord{shown_state(info, std::nullopt, summary, false), summary.state};
  };
  const RunWord completed = word(held, JobState::kCompleted, 1100000), failed = word(held, JobState::kFailed, 1100000),
                paused = word(held, JobState::kHalted, 1500000), put_back = word(held, JobState::kPending, 1500000);
  for (const auto& runs : std::vector<std::vector<RunWord>>{
           {completed, paused}, {paused, completed}, {failed, paused}, {completed, failed, paused}})
    EXPECT_EQ(runs[telling_run(runs, true)].shown.state, JobState::kHalted);
  EXPECT_EQ(telling_run({completed, paused, put_back}, true), 2U) << "one is not paused yet";
  EXPECT_EQ(telling_run({completed}, true), 0U);
  // While the job runs: what is at work is waited for.
  const JobInfo running = slurm("RUNNING");
  const RunWord done = word(running, JobState::kCompleted, 1100000), saves = word(running, JobState::kStoring, 1100000),
                saved = word(running, JobState::kHalted, 1200000);
  EXPECT_EQ(telling_run({done, saves, saved}, false), 1U);
  EXPECT_EQ(telling_run({done, saved, saves}, false), 2U);
  EXPECT_EQ(telling_run({done, saved}, false), 1U);
  EXPECT_EQ(telling_run({done, word(running, JobState::kFailed, 1200000)}, false), 0U);
}

TEST(Resume, AJobDoesNotBeginInTheSecondInWhichItsLastRunEnded) {
  EXPECT_FALSE(starts_next_second(std::nullopt, 1000));
  EXPECT_FALSE(starts_next_second(1000, 1000));
  EXPECT_TRUE(starts_next_second(1004, 1000)) << "dlrun has put it back a moment ago";
  EXPECT_TRUE(starts_next_second(1120, 1000)) << "somebody else has: Slurm adds two minutes";
  const int64_t before = std::time(nullptr);
  wait_for_next_second();
  EXPECT_GT(std::time(nullptr), before);
}

}  // namespace
}  // namespace dl::ctl
