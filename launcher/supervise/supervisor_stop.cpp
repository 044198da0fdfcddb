// SPDX-License-Identifier: Apache-2.0
// Requests to stop (from signals, Slurm, the time limit and dlctl) come in here, and what learners are told of a stop
// goes out. run_stop.cpp decides what a request leads to.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/atomic_file.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using namespace protocol;

namespace {

// Whether a process survives a signal, because it catches or ignores it. If its status cannot be read, it is assumed
// to.
bool catches(pid_t process, int signal) {
  const auto text = read_small_file(fmt::format("/proc/{}/status", process), 16384);
  if (!text) return true;
  for (const char* name : {"SigCgt:", "SigIgn:"}) {
    const size_t at = text->find(name);
    if (at == std::string::npos) return true;
    const uint64_t mask = std::strtoull(text->c_str() + at + std::strlen(name), nullptr, 16);
    if ((mask >> (signal - 1) & 1U) != 0) return true;
  }
  return !ends_a_process(signal);
}

}  // namespace

// An agent has received this signal.
void Supervisor::on_notice(int signal) {
  journal_->signalled();
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
  server_->send(answer.asker, reply_to(answer.kind));
}

void Supervisor::perform(const AskSlurm& /*ask*/) {
  slurm_->ask([this](const SlurmJob::Answer& job) { handle(SlurmSaid{job}); });
}

void Supervisor::perform(const WatchTimeLimit& watch) {
  stops_.limit_is(watch.end_ms);
  look_at_time_limit();
}

// Asked before the answer is needed: by then slurmctld may be slow.
void Supervisor::ask_kill_wait() {
  slurm_->ask_kill_wait([this](int64_t seconds) { state_.rules.kill_wait_s = seconds; });
}

void Supervisor::on_step_report(int rank, const StepReport& report) {
  attempt_.stands_at(rank, report);
  handle(Reported{rank, report.request, {report.attached, report.state, report.step}});
}

// Finds out which process the user's own signal (--signal) goes to, and whether that process survives it.
void Supervisor::look_at_own_signal() {
  using Use = StopController::OwnSignalUse;
  if (!options_.own_signal) return;
  const OwnSignal& own = *options_.own_signal;
  Use use = Use::kNone;
  if (own.to_script) {
    // If the script has become dlrun (exec), its guard passes the signal on to dlrun, and nothing else gets it.
    if (options_.script != ::getppid())
      use = catches(options_.script, own.number) ? Use::kSavesBefore : Use::kStopsBefore;
  } else if (own.number != SIGUSR2 && ends_a_process(own.number) && attempt_.any_attached()) {
    use = Use::kStopsBefore;
  }
  stops_.own_signal_is(use, own.lead_s);
}

void Supervisor::look_at_time_limit() {
  if (state_.stop) return;
  look_at_own_signal();
  if (const auto stop = stops_.limit_unanswered(slurm_->info(), unix_ms(), attempt_.save_times())) return handle(*stop);
  if (!stops_.must_ask_about_limit(unix_ms(), attempt_.save_times())) return;
  slurm_->ask([this](const SlurmJob::Answer& job) {
    const auto stop = stops_.limit_known(job, slurm_->info(), unix_ms(), attempt_.save_times());
    if (stop) handle(*stop);
  });
}

void Supervisor::look_for_request_file() {
  const auto stop = stops_.take_request(dir_.request());
  if (!stop) std::fprintf(stderr, "dlrun: %s\n", stop.error().text.c_str());
  if (stop && *stop) handle(**stop);
}

}  // namespace dl::supervise
