// SPDX-License-Identifier: Apache-2.0
// Where wishes to stop come from (signals, Slurm, the time limit, dlctl), and what goes to learners of a stop. What is
// made of a wish stands in run_stop.cpp.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "common/contract/checkpoint_interval.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

// An agent was sent this signal.
void Supervisor::on_notice(int signal) {
  if (signal != SIGTERM && signal != SIGUSR2) return;
  if (plan().under_slurm) return handle(Signalled{signal});
  if (signal == SIGTERM) ask_to_stop(StopCause::kInterrupt, {}, signal, "a signal");
}

void Supervisor::ask_to_stop(StopCause cause, std::optional<int64_t> deadline_ms, int signal, const std::string& who,
                             ConnectionId asker) {
  handle(StopAsked{cause, deadline_ms, signal, who, asker});
}

void Supervisor::perform(const StopAnswer& answer) {
  if (answer.asker == 0) return;
  using Kind = StopAnswer::Kind;
  const bool taken = answer.kind == Kind::kTaken || answer.kind == Kind::kLater;
  std::string text = "the learners save at the next train step they agree on, then the job is held";
  if (answer.kind == Kind::kLater) text = "no learner trains at this moment: the job is held before the next attempt";
  if (answer.kind == Kind::kAlready) text = "the job is being stopped already";
  if (answer.kind == Kind::kTooLate) text = "the job is ending already";
  server_->send(answer.asker, Reply{taken, text});
}

void Supervisor::perform(const AskSlurm& /*ask*/) {
  slurm_->ask([this](const SlurmJob::Answer& job) { handle(SlurmSaid{job}); });
}

void Supervisor::perform(const WatchTimeLimit& watch) {
  end_time_ms_ = watch.end_ms;
  tick_time_limit(unix_ms());
}

// Before it matters: when it does, slurmctld may be slow to answer.
void Supervisor::ask_kill_wait() {
  slurm_->ask_kill_wait([this](int64_t seconds) { state_.rules.kill_wait_s = seconds; });
}

void Supervisor::perform(const SendRequest& request) {
  for (int rank = 0; rank < plan().deciding(); ++rank)
    if (!attempt_.learners[static_cast<size_t>(rank)].ended)
      agents_->tell(rank, Request{request.request, request.kind});
}

void Supervisor::perform(const SendDecide& decide) {
  agents_->tell_all(encode(Decide{decide.request, decide.kind, decide.step}), attempt_.learners);
}

void Supervisor::perform(const SendWithdraw& withdraw) {
  agents_->tell_all(encode(Withdraw{withdraw.request}), attempt_.learners);
}

void Supervisor::perform(const SignalLearners& signal) {
  agents_->tell_all(encode(Signal{signal.signal}), attempt_.learners);
}

void Supervisor::perform(const KillLearners& kill) {
  agents_->tell_all(encode(Kill{kill.grace_ms}), attempt_.learners);
}

void Supervisor::on_step_report(int rank, const StepReport& report) {
  attempt_.stands_at(rank, report);
  handle(Reported{rank, report.request, {report.attached, report.state, report.step}});
}

void Supervisor::tick_time_limit(int64_t now_ms) {
  if (!end_time_ms_ || state_.stop || limit_check_open_ || !plan().under_slurm) return;
  auto lead = [this] {
    int64_t limit = *end_time_ms_ - run_started_ms_;
    return time_limit_lead_ms(attempt_.save_times(), site_.signal_lead.count() * 1000, limit);
  };
  if (now_ms < *end_time_ms_ - lead()) return;
  // The limit may have been raised since: ask before stopping.
  limit_check_open_ = true;
  slurm_->ask([this, lead](const SlurmJob::Answer& job) {
    limit_check_open_ = false;
    if (job) {
      if (job->end_time) end_time_ms_ = *job->end_time * 1000;
      if (!job->end_time) end_time_ms_.reset();
    }
    if (!end_time_ms_ || unix_ms() < *end_time_ms_ - lead()) return;
    const bool preempted = slurm_->info() && slurm_->info()->preempt_time;
    ask_to_stop(preempted ? StopCause::kPreemption : StopCause::kTimeLimit, *end_time_ms_, 0,
                preempted ? "preempted" : "time limit near");
  });
}

// every=auto, computed anew each time: measurements come in with each save.
int64_t Supervisor::chosen_interval_ms() const {
  const record::Interruptions past = record::count_interruptions(journal_->events());
  const double running_s = past.running_s + attempt_.running_s(awake_ms());
  const double between_s = mean_time_to_interruption_s(running_s, past.unannounced);
  return static_cast<int64_t>(choose_interval_s(attempt_.save_costs(), between_s) * 1000);
}

void Supervisor::tick_periodic_save() {
  if (!plan().checkpoint || state_.phase != Phase::kRunning || state_.agreement.open()) return;
  int64_t every = 0;
  if (plan().checkpoint->every_auto) {
    every = chosen_interval_ms();
  } else if (plan().checkpoint->every) {
    every = std::chrono::duration_cast<std::chrono::milliseconds>(*plan().checkpoint->every).count();
  } else {
    return;
  }
  if (!attempt_.save_due(awake_ms(), every)) return;
  attempt_.save_tried(awake_ms());  // the next try, should this one be withdrawn
  handle(SaveDue{});
}

void Supervisor::look_for_request_file() {
  if (::access(dir_.request().c_str(), F_OK) != 0) return;
  auto request = record::read_request(dir_.request());
  ::unlink(dir_.request().c_str());
  if (!request) {
    std::fprintf(stderr, "dlrun: %s\n", request.error().text.c_str());
  } else if (request->action == "pause") {
    ask_to_stop(StopCause::kPause, {}, 0, request->reason.empty() ? "dlctl pause" : request->reason);
  } else {
    std::fprintf(stderr, "dlrun: request.json asks for something unknown\n");
  }
}

}  // namespace dl::supervise
