// SPDX-License-Identifier: Apache-2.0
// Stopping: every door (preemption, time limit, dlctl pause, Ctrl-C) leads to request_stop().
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "launcher/common/checkpoint_interval.h"
#include "launcher/supervise/exit_codes.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

constexpr int64_t kReserveMs = 1000;      // before the deadline, to put the job back
constexpr int64_t kNoticeQuietMs = 1500;  // Slurm's signal comes once for each agent
constexpr int64_t kKillWaitS = 30;        // Slurm's default KillWait
constexpr int64_t kSameKeyMs = 300;

}  // namespace

void Supervisor::on_signal(int signal) {
  if (putting_back_ && signal == SIGTERM) {
    // Slurm ends the job: go at once, so that its nodes are free the sooner, but not before the begin time is set.
    killed_ = true;
    if (job_put_back_) finish(exit_status_);
  }
  if (putting_back_ || finished_) return;
  if (signal == SIGINT || signal == SIGHUP || (signal == SIGTERM && !plan_.under_slurm)) {
    // Twice within a moment is one: some programs signal a process and its group.
    int64_t now = monotonic_ms();
    if (now - last_interrupt_ms_ > kSameKeyMs) ++interrupts_;
    last_interrupt_ms_ = now;
    if (interrupts_ > 1 && signal == SIGINT) {
      say("stopping at once");
      if (stop_) stop_->not_saved_reason = "not saved: interrupted twice";
      kill_learners(0);
      return;
    }
    request_stop(StopCause::kInterrupt, {}, signal, signal == SIGINT ? "Ctrl-C" : "a signal");
    return;
  }
  if (signal == SIGUSR2 && !plan_.under_slurm) return begin_agreement(ProgressPage::kSave);
  look_up_notice(signal);
}

NoticeInput Supervisor::notice_input(int signal) const {
  NoticeInput input;
  input.signal = signal;
  input.job = job_;
  input.now_ms = unix_ms();
  input.signal_lead_s = site_.signal_lead.count();
  input.kill_wait_s = kKillWaitS;
  input.restart_count = plan_.slurm_restart_count;
  return input;
}

void Supervisor::look_up_notice(int signal) {
  if (putting_back_ || finished_ || (signal != SIGTERM && signal != SIGUSR2)) return;
  if (!plan_.under_slurm) {
    if (signal == SIGTERM) request_stop(StopCause::kInterrupt, {}, signal, "a signal");
    return;
  }
  int64_t now = monotonic_ms();
  if (notice_open_ || now - last_notice_ms_ < kNoticeQuietMs) return;
  notice_open_ = true;
  auto found = std::make_shared<Result<slurm_cli::JobInfo>>(Error{});
  worker_->post([found, id = plan_.job_id] { *found = slurm_cli::show_job(id); },
                [this, found, signal] {
                  notice_open_ = false;
                  last_notice_ms_ = monotonic_ms();
                  NoticeInput input = notice_input(signal);
                  input.job.reset();
                  if (*found) input.job = job_ = std::move(**found);
                  act_on_notice(read_notice(input), signal);
                });
}

void Supervisor::act_on_notice(const NoticeReading& reading, int signal) {
  switch (reading.kind) {
    case NoticeReading::Kind::kStop:
      request_stop(reading.cause, reading.deadline_ms, signal, stop_cause_name(reading.cause));
      break;
    case NoticeReading::Kind::kSaveNow:
      if (!agreement_.open() && !stop_) {
        say("asked by Slurm's signal: saving");
        begin_agreement(ProgressPage::kSave);
      }
      break;
    case NoticeReading::Kind::kWatchTimeLimit:
      end_time_ms_ = reading.deadline_ms;
      tick_time_limit(unix_ms());
      break;
    case NoticeReading::Kind::kNothing:
      break;
  }
}

uint32_t Supervisor::exit_request(const Stop& stop) {
  if (!stop.save) return ProgressPage::kExitWithoutSave;
  return stop.local ? ProgressPage::kSaveLocalAndExit : ProgressPage::kSaveAndExit;
}

SaveTimes Supervisor::save_times() const {
  SaveTimes times;
  for (const Learner& learner : learners_) {
    times.save_ms = std::max(times.save_ms, learner.save_ms);
    times.local_ms = std::max(times.local_ms, learner.local_ms);
  }
  times.step_ms = static_cast<uint64_t>(std::max<int64_t>(step_ms_, 0));
  return times;
}

int64_t Supervisor::newest_saved_step() const {
  int64_t newest = -1;
  for (const Learner& learner : learners_) newest = std::max(newest, learner.saved_step);
  return newest;
}

bool Supervisor::request_stop(StopCause cause, std::optional<int64_t> deadline_ms, int signal, const std::string& who) {
  if (checking_) {
    stop_later_ = [=] { request_stop(cause, deadline_ms, signal, who); };
    return true;
  }
  if (phase_ != Phase::kStarting && phase_ != Phase::kRunning) return false;
  if (stop_) {
    // A harder reason shortens what is under way: the earlier deadline counts, and Slurm's word over ours.
    if (deadline_ms && (!stop_->deadline_ms || *deadline_ms < *stop_->deadline_ms)) stop_->deadline_ms = deadline_ms;
    if (cause == StopCause::kSlurmRequeue || cause == StopCause::kCancelled || cause == StopCause::kLeaseLost)
      stop_->cause = cause;
    return false;
  }
  stop_ = Stop{};
  stop_->cause = cause;
  stop_->who = who;
  stop_->signal = signal;
  stop_->deadline_ms = deadline_ms;
  if (killing_) return true;
  std::optional<int64_t> remaining;
  if (deadline_ms) remaining = *deadline_ms - kReserveMs - unix_ms();
  GraceDecision grace = decide_grace(save_times(), remaining);
  if (cause == StopCause::kLeaseLost)
    grace = {false, "not saved: the checkpoint directory belongs to another job", false};
  if (cause == StopCause::kCancelled) grace = {false, "not saved: the job was cancelled", false};
  stop_->save = grace.save;
  stop_->local = grace.local;
  if (!grace.save) stop_->not_saved_reason = grace.text;
  if (grace.local) say(grace.text);
  if (phase_ == Phase::kStarting ||
      !std::all_of(learners_.begin(), learners_.end(), [](const Learner& l) { return l.started || l.ended; })) {
    stop_->not_saved_reason = "stopped before training began";
    stop_->killing = true;
    say(fmt::format("stopping ({})", who));
    if (phase_ == Phase::kStarting) launcher_.kill_all(SIGTERM);
    kill_learners(0);
    for (Learner& learner : learners_) learner.ended = learner.ended || !learner.said_hello;
    check_attempt_over();
    return true;
  }
  const uint32_t kind = exit_request(*stop_);
  if (agreement_.open() && !agreement_.upgrade(kind)) {
    stop_waits_ = true;  // a save is being made at this moment; the stop follows it
  } else if (!agreement_.open()) {
    begin_agreement(kind);
  }
  return true;
}

void Supervisor::begin_agreement(uint32_t kind) {
  if (phase_ != Phase::kRunning || agreement_.open() || killing_) return;
  agreement_.begin(++next_request_, kind, plan_.deciding());
  for (size_t i = 0; i < static_cast<size_t>(plan_.deciding()); ++i) {
    if (learners_[i].ended) {
      agreement_.gone(static_cast<int>(i));
    } else {
      server_->send(learners_[i].connection, Request{next_request_, kind});
    }
  }
  settle_agreement();
}

void Supervisor::on_step_report(int rank, const StepReport& report) {
  Learner& learner = learners_[static_cast<size_t>(rank)];
  learner.page_state = report.state;
  learner.ever_attached = learner.ever_attached || report.attached;
  learner.step = std::max(learner.step, report.step);
  agreement_.answer(rank, report.request, {report.attached, report.state, report.step});
  settle_agreement();
}

void Supervisor::settle_agreement() {
  StopDecision decision = agreement_.decide();
  if (decision.kind == StopDecision::Kind::kWait) return;
  uint32_t kind = agreement_.kind();
  for (const Learner& learner : learners_) {
    if (learner.ended || learner.connection == 0) continue;
    if (decision.kind == StopDecision::Kind::kDecide) {
      server_->send(learner.connection, Decide{agreement_.request(), kind, decision.step});
    } else {
      server_->send(learner.connection, Withdraw{agreement_.request()});
    }
  }
  agreement_.decided(decision);
  if (decision.kind == StopDecision::Kind::kDecide) {
    if (!stop_) return;
    say(fmt::format("{}: all learners {} at train step {}", stop_->who,
                    kind == ProgressPage::kExitWithoutSave ? "stop" : "save and stop", decision.step));
    return;
  }
  if (!stop_) return;
  if (decision.finishing) {
    say(fmt::format("{}: the learners are finishing", stop_->who));
  } else {
    stop_without_agreement();
  }
}

void Supervisor::stop_without_agreement() {
  if (!stop_ || stop_->killing) return;
  stop_->killing = true;
  if (stop_->not_saved_reason.empty()) stop_->not_saved_reason = "not saved: no learner uses the checkpoint library";
  int64_t grace_ms = std::chrono::duration_cast<std::chrono::milliseconds>(plan_.grace).count();
  if (stop_->deadline_ms) grace_ms = std::clamp<int64_t>(*stop_->deadline_ms - kReserveMs - unix_ms(), 0, grace_ms);
  say(fmt::format("{}: asking the learners to end, {} s at most", stop_->who, (grace_ms + 999) / 1000));
  // Python's KeyboardInterrupt is what Ctrl-C means to a script.
  if (stop_->signal == SIGINT) {
    for (const Learner& learner : learners_)
      if (!learner.ended && learner.connection != 0) server_->send(learner.connection, Signal{SIGINT});
  }
  kill_learners(static_cast<int>(std::min<int64_t>(grace_ms, 1 << 30)));
}

void Supervisor::tick_stop(int64_t now_ms) {
  if (!stop_ || !stop_->deadline_ms || killing_ || now_ms < *stop_->deadline_ms - kReserveMs) return;
  if (stop_->not_saved_reason.empty()) stop_->not_saved_reason = "not saved: the grace period ended first";
  stop_->killing = true;
  kill_learners(0);
}

void Supervisor::tick_time_limit(int64_t now_ms) {
  if (!end_time_ms_ || stop_ || limit_check_open_ || !plan_.under_slurm) return;
  auto lead = [this] {
    int64_t limit = *end_time_ms_ - run_started_ms_;
    return time_limit_lead_ms(save_times(), site_.signal_lead.count() * 1000, limit);
  };
  if (now_ms < *end_time_ms_ - lead()) return;
  // The limit may have been raised since: ask before stopping.
  limit_check_open_ = true;
  auto found = std::make_shared<Result<slurm_cli::JobInfo>>(Error{});
  worker_->post([found, id = plan_.job_id] { *found = slurm_cli::show_job(id); },
                [this, found, lead] {
                  limit_check_open_ = false;
                  if (*found) {
                    job_ = **found;
                    if (job_->end_time) end_time_ms_ = *job_->end_time * 1000;
                    if (!job_->end_time) end_time_ms_.reset();
                  }
                  if (!end_time_ms_ || unix_ms() < *end_time_ms_ - lead()) return;
                  bool preempted = job_ && job_->preempt_time;
                  request_stop(preempted ? StopCause::kPreemption : StopCause::kTimeLimit, *end_time_ms_, 0,
                               preempted ? "preempted" : "time limit near");
                });
}

// every=auto, computed anew each time: measurements come in with each save.
int64_t Supervisor::chosen_interval_ms() const {
  SaveCosts costs;
  for (const Learner& learner : learners_) {
    costs.cost_s = std::max(costs.cost_s, static_cast<double>(learner.cost_ms) / 1000);
    costs.durable_s = std::max(costs.durable_s, static_cast<double>(learner.save_ms) / 1000);
  }
  const record::Interruptions past = record::count_interruptions(journal_->events());
  const double running_s = past.running_s + static_cast<double>(monotonic_ms() - running_since_ms_) / 1000;
  return static_cast<int64_t>(choose_interval_s(costs, mean_time_to_interruption_s(running_s, past.unannounced)) *
                              1000);
}

void Supervisor::tick_periodic_save() {
  if (!plan_.checkpoint || stop_ || agreement_.open() || killing_) return;
  int64_t every = 0;
  if (plan_.checkpoint->every_auto) {
    every = chosen_interval_ms();
  } else if (plan_.checkpoint->every) {
    every = std::chrono::duration_cast<std::chrono::milliseconds>(*plan_.checkpoint->every).count();
  } else {
    return;
  }
  if (running_since_ms_ == 0 || monotonic_ms() - last_save_ms_ < every) return;
  last_save_ms_ = monotonic_ms();  // the next try, should this one be withdrawn
  begin_agreement(ProgressPage::kSave);
}

void Supervisor::look_for_request_file() {
  if (::access(dir_.request().c_str(), F_OK) != 0) return;
  auto request = record::read_request(dir_.request());
  ::unlink(dir_.request().c_str());
  if (!request) {
    std::fprintf(stderr, "dlrun: %s\n", request.error().text.c_str());
  } else if (request->action == "pause") {
    request_stop(StopCause::kPause, {}, 0, request->reason.empty() ? "dlctl pause" : request->reason);
  } else {
    std::fprintf(stderr, "dlrun: request.json asks for something unknown\n");
  }
}

}  // namespace dl::supervise
