// SPDX-License-Identifier: Apache-2.0
// First cause, grace budget, notices, restart policy and loop guard: tables.
#include <gtest/gtest.h>

#include <csignal>
#include <tuple>

#include "common/contract/checkpoint_interval.h"
#include "common/contract/exit_codes.h"
#include "launcher/supervise/first_cause.h"
#include "launcher/supervise/grace_budget.h"
#include "launcher/supervise/notice.h"
#include "launcher/supervise/restart_policy.h"

namespace dl::supervise {
namespace {

using record::Event;
using record::JobState;
using Action = EndDecision::Action;

Failure exited(int rank, int code, int64_t at, bool asked = false) {
  Failure f;
  f.rank = rank;
  f.exit = code;
  f.at_ms = at;
  f.asked = asked;
  return f;
}
Failure killed(int rank, int signal, int64_t at, bool asked = false) {
  Failure f;
  f.rank = rank;
  f.kind = Failure::Kind::kSignal;
  f.signal = signal;
  f.at_ms = at;
  f.asked = asked;
  return f;
}
Failure lost(int rank, int64_t at) {
  Failure f;
  f.rank = rank;
  f.kind = Failure::Kind::kAgentLost;
  f.at_ms = at;
  return f;
}

TEST(FirstCauseTest, Table) {
  struct Row {
    const char* what;
    std::vector<Failure> failures;
    int rank, status;
  };
  const Row rows[] = {
      {"the earliest", {exited(2, 3, 100), exited(0, 1, 500)}, 2, 3},
      {"not those that were asked", {killed(0, SIGTERM, 90, true), exited(2, 3, 100)}, 2, 3},
      {"a kill explains the broken connections around it", {exited(0, 1, 100), killed(1, SIGKILL, 150)}, 1, 137},
      {"but not those long before", {exited(0, 1, 100), killed(1, SIGKILL, 900)}, 0, 1},
      {"an abort may be a consequence", {exited(0, 1, 100), killed(1, SIGABRT, 101)}, 0, 1},
      {"a segmentation fault is not", {killed(0, SIGABRT, 100), killed(1, SIGSEGV, 120)}, 1, 139},
      {"a lost agent", {exited(0, 1, 100), lost(3, 200)}, 3, kExitNodeLost},
  };
  for (const Row& row : rows) {
    auto cause = first_cause(row.failures);
    ASSERT_TRUE(cause) << row.what;
    EXPECT_EQ(cause->rank, row.rank) << row.what;
    EXPECT_EQ(exit_status(*cause), row.status) << row.what;
  }
  EXPECT_FALSE(first_cause({}));
  EXPECT_FALSE(first_cause({killed(0, SIGKILL, 1, true)}));
}

TEST(FirstCauseTest, IsNamedForPeople) {
  Failure f = killed(2, SIGKILL, 1);
  f.host = "n3";
  EXPECT_EQ(describe(f), "learner 2 on n3 was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(classify(f, {}).code, "C201");
  EXPECT_EQ(classify(lost(0, 1), {}).code, "S104");
  EXPECT_EQ(describe(exited(0, 3, 1)), "learner 0 exited with code 3");
}

TEST(GraceBudgetTest, Table) {
  EXPECT_TRUE(decide_grace({0, 0}, 100).save) << "unmeasured: tried";
  EXPECT_TRUE(decide_grace({30000, 100}, std::nullopt).save) << "no deadline";
  EXPECT_TRUE(decide_grace({1000, 100}, 2500).save);
  EXPECT_FALSE(decide_grace({1000, 100}, 2499).save);
  EXPECT_EQ(decide_grace({30769, 0}, 12000).text, "not saved: a save takes 41 s, and 12 s are left");
  EXPECT_FALSE(decide_grace({1, 0}, -5000).save);
}

TEST(GraceBudgetTest, WhatDoesNotFitIntoTheDirectoryMayFitOnTheNodes) {
  const SaveTimes times{30769, 0, 5000};  // needs 41 s, or 7.5 s on the nodes
  EXPECT_TRUE(decide_grace(times, 42000).save);
  EXPECT_FALSE(decide_grace(times, 42000).local);
  const GraceDecision local = decide_grace(times, 12000);
  EXPECT_TRUE(local.save);
  EXPECT_TRUE(local.local);
  EXPECT_EQ(local.text, "saving on the nodes alone: a save in the checkpoint directory takes 41 s, and 12 s are left");
  EXPECT_TRUE(decide_grace(times, 7500).local);
  EXPECT_FALSE(decide_grace(times, 7499).save);
  EXPECT_EQ(decide_grace(times, 7000).text, "not saved: a save takes 7.5 s, and 7.0 s are left");
  EXPECT_FALSE(decide_grace(times, std::nullopt).local) << "without a deadline there is time for the directory";
  EXPECT_FALSE(decide_grace({0, 0, 5000}, 100).local) << "unmeasured: tried in the directory";
}

TEST(CheckpointIntervalTest, FollowsDalyWithinItsLimits) {
  // By hand: delta 2 s, M 86400 s: sqrt(345600) = 587.88, times 1 + 0.0034021/3 + 0.0000116/9, less 2.
  EXPECT_NEAR(daly_interval_s(2, 86400), 586.55, 0.01);
  EXPECT_EQ(daly_interval_s(200, 100), 100) << "a save as long as the time between interruptions";
  EXPECT_EQ(daly_interval_s(0, 100), 0);
  EXPECT_EQ(choose_interval_s({0, 0}, 86400), kUnmeasuredInterval_s);
  EXPECT_NEAR(choose_interval_s({2, 10}, 86400), 586.55, 0.01);
  EXPECT_EQ(choose_interval_s({0.001, 30}, 86400), 30) << "one save in flight at a time";
  EXPECT_EQ(choose_interval_s({0, 0.2}, 86400), 1);
  EXPECT_EQ(choose_interval_s({100, 200}, 864000), 3600) << "an hour at most";
  EXPECT_EQ(choose_interval_s({100, 5000}, 864000), 5000);
  // More interruptions, shorter intervals; it lies near the optimum of the expected loss.
  double before = 1e9;
  for (int64_t interruptions : {0, 1, 5, 20, 100}) {
    const double m = mean_time_to_interruption_s(100000, interruptions), t = daly_interval_s(5, m);
    EXPECT_LT(t, before);
    before = t;
    const auto loss = [&](double interval) { return 5 / interval + (interval + 5) / 2 / m; };
    EXPECT_LT(loss(t), loss(t * 0.7));
    EXPECT_LT(loss(t), loss(t * 1.4));
  }
  EXPECT_EQ(mean_time_to_interruption_s(0, 0), 86400);
}

TEST(CheckpointIntervalTest, AnnouncedStopsAreNoInterruptions) {
  const auto event = [](int64_t s, int attempt, JobState state, const char* code = "") {
    Event e;
    e.time_ms = s * 1000;
    e.attempt = attempt;
    e.state = state;
    e.code = code;
    return e;
  };
  std::vector<Event> events;
  EXPECT_EQ(record::count_interruptions(events).unannounced, 0);
  events = {event(0, 1, JobState::kDeploy), event(10, 1, JobState::kProcessing), event(110, 1, JobState::kPending)};
  events.push_back(event(200, 2, JobState::kProcessing));
  EXPECT_EQ(record::count_interruptions(events).unannounced, 0) << "preempted and saved";
  EXPECT_EQ(record::count_interruptions(events).running_s, 100);
  events.push_back(event(300, 2, JobState::kPending, "S104"));  // a node was lost
  events.push_back(event(400, 3, JobState::kProcessing));
  events.push_back(event(450, 3, JobState::kProcessing));  // and then dlrun itself, without a word
  events.push_back(event(500, 4, JobState::kProcessing));
  EXPECT_EQ(record::count_interruptions(events).unannounced, 2);
  EXPECT_EQ(record::count_interruptions(events).running_s, 100 + 100 + 50);
}

TEST(GraceBudgetTest, TimeLimitLead) {
  EXPECT_EQ(time_limit_lead_ms({0, 0}, 120000, 3600000), 120000) << "unmeasured: as the site says";
  EXPECT_EQ(time_limit_lead_ms({10000, 500}, 120000, 3600000), 10000 * 13 / 10 + 1000 + 1000 + 15000);
  EXPECT_EQ(time_limit_lead_ms({0, 0}, 120000, 60000), 15000) << "never more than a quarter of the limit";
  EXPECT_EQ(time_limit_lead_ms({0, 0}, 120000, -5), 0);
}

TEST(NoticeTest, NodesThatAreOfferedAreTakenOnceAndInTime) {
  constexpr int64_t kNow = 1789000000;
  using K = NoticeReading::Kind;
  const auto read = [&](const std::string& label, int signal, int64_t taken_s, int64_t now_s) {
    NoticeInput input;
    input.signal = signal;
    input.now_ms = input.signal_ms = now_s * 1000;
    input.taken_s = taken_s;
    slurm_cli::JobInfo job;
    job.state = "RUNNING";
    job.admin_comment = label;
    input.job = job;
    return read_notice(input);
  };
  const std::string label = "dl:1 tenant=nlp learners=1:4 grow=2@1789000000";
  const NoticeReading offered = read(label, SIGUSR2, 0, kNow + 3);
  EXPECT_EQ(offered.kind, K::kGrow);
  ASSERT_TRUE(offered.offer);
  EXPECT_EQ(offered.offer->nodes, 2);
  EXPECT_EQ(offered.offer->offered_s, kNow);
  EXPECT_EQ(read(label, SIGUSR2, kNow, kNow + 3).kind, K::kSaveNow) << "taken already";
  EXPECT_EQ(read(label, SIGUSR2, 0, kNow + kOfferS + 1).kind, K::kSaveNow) << "too old";
  EXPECT_EQ(read(label, SIGTERM, 0, kNow + 3).kind, K::kStop);
  EXPECT_EQ(read(label + " yields=9@1789000060:0", SIGUSR2, 0, kNow + 3).kind, K::kStop) << "a claim comes first";
  for (const char* bad : {"", "dl:1 grow=2", "dl:1 grow=0@1789000000", "dl:1 grow=x@1789000000", "dl:1 grow=2@",
                          "grow=2@1789000000", "dl:1 tenant=a | grow=2@1789000000"})
    EXPECT_FALSE(node_offer(bad)) << bad;
}

TEST(NoticeTest, Table) {
  constexpr int64_t kNow = 1789000000;
  struct Row {
    const char* what;
    int signal;
    const char* state;
    std::optional<int64_t> end_in, preempt_in, limit_ends_in;
    int restarts;
    NoticeReading::Kind kind;
    StopCause cause;
    std::optional<int64_t> deadline_in;
  };
  using K = NoticeReading::Kind;
  const Row rows[] = {
      {"preempted with grace", SIGTERM, "RUNNING", 15, -1, 3000, 0, K::kStop, StopCause::kPreemption, 15},
      {"preempted, by the job's own signal", SIGUSR2, "RUNNING", 15, -1, 3000, 0, K::kStop, StopCause::kPreemption, 15},
      {"time limit comes", SIGUSR2, "RUNNING", 118, {}, 118, 0, K::kWatchTimeLimit, StopCause::kTimeLimit, 118},
      {"sent by a person", SIGUSR2, "RUNNING", 3000, {}, 3000, 0, K::kSaveNow, StopCause::kPreemption, {}},
      {"sent by the script, near the limit", SIGTERM, "RUNNING", 118, {}, 118, 0, K::kStop, StopCause::kTimeLimit, 118},
      {"sent by a person, to end", SIGTERM, "RUNNING", 3000, {}, 3000, 0, K::kStop, StopCause::kInterrupt, {}},
      {"no limit at all", SIGTERM, "RUNNING", {}, {}, {}, 0, K::kStop, StopCause::kInterrupt, {}},
      {"scancel", SIGTERM, "COMPLETING", 0, {}, 3000, 0, K::kStop, StopCause::kCancelled, 30},
      {"scancel, shown plainly", SIGTERM, "CANCELLED", 0, {}, 3000, 0, K::kStop, StopCause::kCancelled, 30},
      {"the limit has passed", SIGTERM, "COMPLETING", 0, {}, -1, 0, K::kStop, StopCause::kTimeLimit, 30},
      {"Slurm has put it back", SIGTERM, "COMPLETING", 0, -15, 3000, 1, K::kStop, StopCause::kSlurmRequeue, 30},
      {"and shows it pending", SIGTERM, "PENDING", {}, {}, 3000, 0, K::kStop, StopCause::kSlurmRequeue, 30},
  };
  for (const Row& row : rows) {
    NoticeInput input;
    input.signal = row.signal;
    input.now_ms = input.signal_ms = kNow * 1000;
    slurm_cli::JobInfo job;
    job.state = row.state;
    if (row.end_in) job.end_time = kNow + *row.end_in;
    if (row.preempt_in) job.preempt_time = kNow + *row.preempt_in;
    if (row.limit_ends_in) {
      job.start_time = kNow - 600;
      job.time_limit_s = 600 + *row.limit_ends_in;
    }
    job.restarts = row.restarts;
    input.job = job;
    NoticeReading reading = read_notice(input);
    EXPECT_EQ(static_cast<int>(reading.kind), static_cast<int>(row.kind)) << row.what;
    if (row.kind == K::kStop) {
      EXPECT_STREQ(stop_cause_name(reading.cause), stop_cause_name(row.cause)) << row.what;
    }
    if (row.deadline_in) {
      ASSERT_TRUE(reading.deadline_ms) << row.what;
      EXPECT_EQ(*reading.deadline_ms, (kNow + *row.deadline_in) * 1000) << row.what;
    } else {
      EXPECT_FALSE(reading.deadline_ms) << row.what;
    }
  }
}

TEST(NoticeTest, KillWaitIsCountedFromTheSignalHoweverLateSlurmAnswers) {
  NoticeInput input;
  input.signal = SIGTERM;
  input.signal_ms = 1789000000000;
  input.now_ms = input.signal_ms + 20000;
  input.kill_wait_s = 10;
  const auto expect_ten = [&](const char* what) {
    const NoticeReading reading = read_notice(input);
    ASSERT_TRUE(reading.deadline_ms) << what;
    EXPECT_EQ(*reading.deadline_ms, input.signal_ms + 10000) << what;
  };
  expect_ten("Slurm does not answer");
  input.job.emplace();
  for (const char* state : {"COMPLETING", "PENDING", "PREEMPTED"}) {
    input.job->state = state;
    expect_ten(state);
  }
}

TEST(NoticeTest, WithoutAnAnswerOfSlurmASigtermIsTakenSeriously) {
  NoticeInput input;
  input.signal = SIGTERM;
  EXPECT_EQ(read_notice(input).kind, NoticeReading::Kind::kStop);
  input.signal = SIGUSR2;
  EXPECT_EQ(read_notice(input).kind, NoticeReading::Kind::kSaveNow);
}

TEST(NoticeTest, APreemptionOfAnEarlierStartIsNoneOfThisOne) {
  NoticeInput in;
  in.signal = SIGUSR2;
  in.now_ms = in.signal_ms = 1'789'000'100'000;
  in.job.emplace();
  in.job->state = "RUNNING";
  in.job->preempt_time = 1'789'000'090;
  in.job->end_time = 1'789'000'120;
  EXPECT_EQ(read_notice(in).cause, StopCause::kPreemption) << "the start is not known";
  in.job->start_time = 1'789'000'090;
  EXPECT_EQ(read_notice(in).kind, NoticeReading::Kind::kStop);
  in.job->start_time = 1'789'000'095;
  in.job->end_time = 1'789'090'000;
  EXPECT_EQ(read_notice(in).kind, NoticeReading::Kind::kSaveNow);
}

TEST(NoticeTest, GpusThatAreTakenBack) {
  constexpr int64_t kNow = 1789000000;
  struct Row {
    const char* label;
    int signal;
    std::optional<int64_t> deadline_s;  // none: the signal means what it means without a label
  };
  const Row rows[] = {
      {"dl:1 tenant=nlp tier=auto learners=2 gpus=1 charge=borrowed yields=17@1789000060:0", SIGUSR2, 1789000060},
      {"dl:1 yields=17@1789000060:2 tenant=nlp", SIGTERM, 1789000060},
      {"dl:1 tenant=nlp yields=17@1789000000:0", SIGUSR2, {}},  // of an earlier attempt
      {"dl:1 tenant=nlp", SIGUSR2, {}},
      {"yields=17@1789000060:0", SIGUSR2, {}},
      {"dl:2 yields=17@1789000060:0", SIGUSR2, {}},
      {"dl:1 yields=17@:0", SIGUSR2, {}},
      {"dl:1 yields=17", SIGUSR2, {}},
      {"dl:1 yields=:17@1789000060", SIGUSR2, {}},
      {"dl:1 yields=17@-5:0", SIGUSR2, {}},
      {"dl:1 yields=17@99999999999999999999:0", SIGUSR2, {}},
      {"dl:1 tenant=nlp | see yields=17@1789000060:0", SIGUSR2, {}},  // somebody else's words
  };
  for (const Row& row : rows) {
    NoticeInput input;
    input.signal = row.signal;
    input.now_ms = input.signal_ms = kNow * 1000;
    slurm_cli::JobInfo job;
    job.state = "RUNNING";
    job.admin_comment = row.label;
    input.job = job;
    const NoticeReading reading = read_notice(input);
    if (row.deadline_s) {
      EXPECT_EQ(reading.kind, NoticeReading::Kind::kStop) << row.label;
      EXPECT_EQ(reading.cause, StopCause::kYield) << row.label;
      EXPECT_EQ(reading.deadline_ms, *row.deadline_s * 1000) << row.label;
    } else {
      EXPECT_EQ(reading.kind, NoticeReading::Kind::kSaveNow) << row.label;
    }
  }
}

TEST(NoticeTest, AJobThatYieldsToItselfIsResized) {
  for (const auto& [id, number, cause] : {std::tuple{"17", "17", StopCause::kResize},
                                          {"5_7", "21", StopCause::kYield},
                                          {"18", "18", StopCause::kYield},
                                          {"5_7", "17", StopCause::kResize}}) {
    NoticeInput input;
    input.signal = SIGUSR2;
    input.now_ms = input.signal_ms = 1'789'000'000'000;
    slurm_cli::JobInfo job;
    job.state = "RUNNING";
    job.job_id = id;
    job.number = number;
    job.admin_comment = "dl:1 tenant=nlp yields=17@1789000060:4 size=4@1788000000";
    input.job = job;
    const NoticeReading reading = read_notice(input);
    EXPECT_EQ(reading.kind, NoticeReading::Kind::kStop);
    EXPECT_EQ(reading.cause, cause) << id;
  }
}

Event event(int attempt, JobState state, std::optional<int64_t> step = {}) {
  Event e;
  e.attempt = attempt;
  e.state = state;
  e.step = step;
  return e;
}

TEST(LoopGuardTest, CountsAttemptsThatGotNoFurther) {
  using J = JobState;
  EXPECT_EQ(attempts_without_progress({}), 0);
  EXPECT_EQ(attempts_without_progress({event(1, J::kDeploy)}), 0) << "did not run";
  std::vector<Event> log = {event(1, J::kDeploy), event(1, J::kProcessing)};
  EXPECT_EQ(attempts_without_progress(log), 1);
  log.push_back(event(1, J::kProcessing, 50));
  EXPECT_EQ(attempts_without_progress(log), 0);
  log.push_back(event(2, J::kProcessing));
  EXPECT_EQ(attempts_without_progress(log), 1);
  log.push_back(event(2, J::kProcessing, 50));
  EXPECT_EQ(attempts_without_progress(log), 1) << "the same step is no progress";
  log.push_back(event(3, J::kProcessing, 40));
  EXPECT_EQ(attempts_without_progress(log), 2);
  log.push_back(event(4, J::kProcessing, 51));
  EXPECT_EQ(attempts_without_progress(log), 0);
  log.push_back(event(5, J::kProcessing));
  log.push_back(event(5, J::kHalted));
  EXPECT_EQ(attempts_without_progress(log), 0) << "a person has resumed it";
  log.push_back(event(6, J::kProcessing));
  EXPECT_EQ(attempts_without_progress(log), 1);
}

struct PolicyRow {
  const char* what;
  AttemptEnd end;
  RestartLimits limits;
  Action action;
  int status;
};

AttemptEnd failed(Failure failure) {
  AttemptEnd end;
  end.failure = std::move(failure);
  return end;
}
AttemptEnd stopped(StopCause cause, bool saved, int64_t step = 10) {
  AttemptEnd end;
  end.stop = cause;
  end.all_saved = saved;
  end.saved_step = step;
  return end;
}
RestartLimits limits(int done, int max, int without_progress, bool measurable, bool can_requeue) {
  RestartLimits l;
  l.restarts_done = done;
  l.restarts_max = max;
  l.without_progress = without_progress;
  l.measurable = measurable;
  l.can_requeue = can_requeue;
  return l;
}

TEST(RestartPolicyTest, WhatSlurmKillsWhileItEndsTheJobHasNotFailed) {
  EXPECT_TRUE(is_kill(lost(0, 1)));
  EXPECT_TRUE(is_kill(killed(0, SIGKILL, 1)));
  EXPECT_FALSE(is_kill(killed(0, SIGSEGV, 1)));
  EXPECT_FALSE(is_kill(exited(0, 1, 1)));
  Failure memory = killed(0, SIGKILL, 1);
  memory.memory = true;
  EXPECT_FALSE(is_kill(memory));
  EXPECT_TRUE(is_slurms_kill(lost(0, 1), 5000, 5000));
  EXPECT_FALSE(is_slurms_kill(lost(0, 1), 4999, 5000)) << "somebody killed it before Slurm began to end the job";
  EXPECT_FALSE(is_slurms_kill(lost(0, 1), 5000, 0));
  EXPECT_FALSE(is_slurms_kill(exited(0, 1, 1), 9000, 5000));
  AttemptEnd end = failed(lost(0, 1));
  end.killed_by_slurm = true;
  end.not_saved_reason = killed_before_saved(5100);
  const std::string why =
      "not saved: killed 5 s after Slurm began to end the job, before its save had ended; save more often (every= of "
      "--dl-checkpoint), or have KillWait in slurm.conf raised";
  for (const auto& [cause, begin] : {std::pair{StopCause::kTimeLimit, "time limit: "},
                                     {StopCause::kSlurmRequeue, "requeued by Slurm: "},
                                     {StopCause::kCancelled, "cancelled: "}}) {
    end.stop = cause;
    const EndDecision decision = decide_end(end, limits(0, 0, 0, true, true));
    EXPECT_EQ(decision.reason, begin + why);
    EXPECT_TRUE(decision.by_slurm);
  }
  end.killed_by_slurm = false;
  EXPECT_FALSE(decide_end(end, limits(0, 0, 0, true, true)).by_slurm);
}

TEST(RestartPolicyTest, Table) {
  AttemptEnd complete;
  complete.all_finished = true;
  AttemptEnd complete_while_stopping = complete;
  complete_while_stopping.stop = StopCause::kPreemption;
  AttemptEnd failed_then_stopped = failed(exited(1, 3, 1));
  failed_then_stopped.stop = StopCause::kPreemption;
  AttemptEnd sigterm_first = failed(killed(1, SIGTERM, 1));
  sigterm_first.stop = StopCause::kPreemption;
  Failure unknown_command = exited(0, 127, 1);
  unknown_command.kind = Failure::Kind::kNotStarted;
  RestartLimits node_lost = limits(0, 3, 0, true, true);
  node_lost.node_lost = true;
  RestartLimits goes_on = node_lost;
  goes_on.rest_suffices = true;
  RestartLimits goes_on_guarded = goes_on;
  goes_on_guarded.without_progress = 2;
  RestartLimits goes_on_without_slurms_queue = goes_on;
  goes_on_without_slurms_queue.can_requeue = false;
  RestartLimits goes_on_guarded_without_queue = goes_on_guarded;
  goes_on_guarded_without_queue.can_requeue = false;
  RestartLimits from_the_start = goes_on;
  from_the_start.measurable = false;
  RestartLimits not_from_the_start = from_the_start;
  not_from_the_start.restarts_max = 0;
  RestartLimits no_restarts = goes_on;
  no_restarts.restarts_max = 0;
  AttemptEnd lost_while_stopping = failed(lost(1, 1));
  lost_while_stopping.stop = StopCause::kPause;
  AttemptEnd slurms_kill = failed(lost(0, 1));
  slurms_kill.stop = StopCause::kTimeLimit;
  slurms_kill.killed_by_slurm = true;
  AttemptEnd slurms_kill_cancelled = slurms_kill;
  slurms_kill_cancelled.stop = StopCause::kCancelled;
  AttemptEnd slurms_kill_requeued = slurms_kill;
  slurms_kill_requeued.stop = StopCause::kSlurmRequeue;
  AttemptEnd somebodys_kill = slurms_kill;
  somebodys_kill.killed_by_slurm = false;
  AttemptEnd failed_on_the_way = failed(exited(1, 3, 1));
  failed_on_the_way.stop = StopCause::kOtherNodes;
  AttemptEnd lost_on_the_way = failed(lost(1, 1));
  lost_on_the_way.stop = StopCause::kOtherNodes;
  const PolicyRow rows[] = {
      {"more nodes, saved", stopped(StopCause::kOtherNodes, true), limits(0, 0, 0, true, true), Action::kRestart,
       kExitSaved},
      {"more nodes, not saved", stopped(StopCause::kOtherNodes, false), limits(0, 0, 2, true, true), Action::kRestart,
       kExitNotSaved},
      {"fewer nodes, saved", stopped(StopCause::kOtherNodes, true), goes_on, Action::kRestart, kExitSaved},
      {"too few nodes", stopped(StopCause::kOtherNodes, true), node_lost, Action::kRequeue, kExitSaved},
      {"other nodes, a failure before", failed_on_the_way, limits(0, 1, 0, true, true), Action::kRestart, 3},
      {"other nodes, a node lost before", lost_on_the_way, goes_on, Action::kRestart, kExitNodeLost},
      {"other nodes, a node lost before, too few", lost_on_the_way, node_lost, Action::kRequeue, kExitNodeLost},
      {"all finished", complete, {}, Action::kComplete, 0},
      {"finished although a stop was asked", complete_while_stopping, {}, Action::kComplete, 0},
      {"a failure, no restarts", failed(exited(1, 3, 1)), limits(0, 0, 1, true, true), Action::kFail, 3},
      {"a failure, restarts left", failed(killed(1, 9, 1)), limits(1, 2, 0, true, true), Action::kRestart, 137},
      {"none left", failed(killed(1, 9, 1)), limits(2, 2, 0, true, true), Action::kFail, 137},
      {"the loop guard holds", failed(exited(1, 3, 1)), limits(1, 9, 2, true, true), Action::kHold, 3},
      {"without Slurm it fails", failed(exited(1, 3, 1)), limits(1, 9, 2, true, false), Action::kFail, 3},
      {"progress cannot be told", failed(exited(1, 3, 1)), limits(1, 9, 2, false, true), Action::kRestart, 3},
      {"no restart for what cannot start", failed(unknown_command), limits(0, 9, 0, true, true), Action::kFail, 127},
      {"a node lost goes back to the queue", failed(lost(1, 1)), node_lost, Action::kRequeue, kExitNodeLost},
      {"the rest suffices", failed(lost(1, 1)), goes_on, Action::kRestart, kExitNodeLost},
      {"the rest suffices, no restarts", failed(lost(1, 1)), no_restarts, Action::kRestart, kExitNodeLost},
      {"the rest suffices, no progress twice", failed(lost(1, 1)), goes_on_guarded, Action::kHold, kExitNodeLost},
      {"the rest suffices, cannot be put back", failed(lost(1, 1)), goes_on_without_slurms_queue, Action::kRestart,
       kExitNodeLost},
      {"nor held", failed(lost(1, 1)), goes_on_guarded_without_queue, Action::kFail, kExitNodeLost},
      {"the rest suffices, without checkpoints", failed(lost(1, 1)), from_the_start, Action::kRestart, kExitNodeLost},
      {"nor may it begin again", failed(lost(1, 1)), not_from_the_start, Action::kFail, kExitNodeLost},
      {"a node lost while stopping", lost_while_stopping, goes_on, Action::kRequeue, kExitNodeLost},
      {"failed before the notice", failed_then_stopped, limits(0, 0, 0, true, true), Action::kFail, 3},
      {"Slurm's SIGTERM is no failure", sigterm_first, limits(0, 0, 0, true, true), Action::kRequeue, kExitNotSaved},
      {"preempted, saved", stopped(StopCause::kPreemption, true), limits(0, 0, 0, true, true), Action::kRequeue,
       kExitSaved},
      {"preempted, not saved, once", stopped(StopCause::kPreemption, false), limits(0, 0, 1, true, true),
       Action::kRequeue, kExitNotSaved},
      {"twice", stopped(StopCause::kPreemption, false), limits(0, 0, 2, true, true), Action::kHold, kExitNotSaved},
      {"preempted, cannot be put back", stopped(StopCause::kPreemption, true), limits(0, 0, 0, true, false),
       Action::kStopped, kExitSaved},
      {"time limit, saved", stopped(StopCause::kTimeLimit, true), limits(0, 0, 0, true, true), Action::kRequeue,
       kExitSaved},
      {"time limit, killed by Slurm", slurms_kill, limits(0, 0, 1, true, true), Action::kRequeue, kExitNotSaved},
      {"the same twice", slurms_kill, limits(0, 0, 2, true, true), Action::kHold, kExitNotSaved},
      {"the same without checkpoints", slurms_kill, limits(0, 0, 0, false, true), Action::kFail, kExitNotSaved},
      {"time limit, killed by somebody else before Slurm ends the job", somebodys_kill, limits(0, 0, 0, true, true),
       Action::kFail, exit_status(lost(0, 1))},
      {"scancel, killed by Slurm", slurms_kill_cancelled, limits(0, 0, 0, true, true), Action::kFail, kExitNotSaved},
      {"Slurm put it back and killed it", slurms_kill_requeued, limits(0, 0, 0, true, true), Action::kAlreadyRequeued,
       kExitNotSaved},
      {"time limit without checkpoints", stopped(StopCause::kTimeLimit, false, -1), limits(0, 0, 0, false, true),
       Action::kFail, kExitNotSaved},
      {"gives way, saved", stopped(StopCause::kYield, true), limits(0, 0, 0, true, true), Action::kRequeue, kExitSaved},
      {"resized, saved", stopped(StopCause::kResize, true), limits(0, 0, 0, true, true), Action::kRequeue, kExitSaved},
      {"gives way once more before it got any further", stopped(StopCause::kYield, false), limits(0, 0, 5, true, true),
       Action::kRequeue, kExitNotSaved},
      {"gives way, cannot be put back", stopped(StopCause::kYield, true), limits(0, 0, 0, true, false),
       Action::kStopped, kExitSaved},
      {"paused", stopped(StopCause::kPause, true), limits(0, 0, 0, true, true), Action::kHold, kExitSaved},
      {"paused without Slurm", stopped(StopCause::kPause, true), limits(0, 0, 0, true, false), Action::kStopped,
       kExitSaved},
      {"Ctrl-C", stopped(StopCause::kInterrupt, true), {}, Action::kStopped, kExitSaved},
      {"scancel", stopped(StopCause::kCancelled, false), limits(0, 0, 0, true, true), Action::kFail, kExitNotSaved},
      {"Slurm put it back", stopped(StopCause::kSlurmRequeue, false), limits(0, 0, 0, true, true),
       Action::kAlreadyRequeued, kExitNotSaved},
  };
  for (const PolicyRow& row : rows) {
    EndDecision decision = decide_end(row.end, row.limits);
    EXPECT_EQ(static_cast<int>(decision.action), static_cast<int>(row.action)) << row.what << ": " << decision.reason;
    EXPECT_EQ(decision.exit_status, row.status) << row.what;
    EXPECT_FALSE(decision.reason.empty()) << row.what;
    EXPECT_EQ(decision.without_lost, row.limits.rest_suffices && row.action == Action::kRestart) << row.what;
  }
}

}  // namespace
}  // namespace dl::supervise
