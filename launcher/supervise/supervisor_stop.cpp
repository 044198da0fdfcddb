// SPDX-License-Identifier: Apache-2.0
// Requests to stop come in here: from signals, Slurm, the time limit and request.json. run_stop.cpp decides what a
// request leads to, and learner_orders.cpp tells learners.
#include <csignal>
#include <cstdio>

#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using namespace protocol;

// dlrun itself has received this signal: from Slurm, if it has taken the place of the batch script (exec), from the
// script (trap 'kill -USR1 $pid' USR1), or from a person. SIGUSR1, and the signal of the job's own --signal=B:, are
// meant for the learners, and ask for no stop; only SIGTERM always does.
void Supervisor::on_signal(int signal) {
  journal_->signalled();
  results_->hurry(signal);
  const bool own = options_.own_signal && options_.own_signal->to_script && options_.own_signal->number == signal;
  const bool for_learners = own || signal == SIGUSR1;
  if (for_learners && attempts_ > 0) orders_->perform(SignalLearners{signal, true});
  handle(Signalled{for_learners && signal != SIGTERM ? SIGUSR2 : signal});
}

// An agent has received this signal.
void Supervisor::on_notice(int signal) {
  journal_->signalled();
  if (signal != SIGTERM && signal != SIGUSR2) return;
  results_->hurry(signal);
  if (plan().under_slurm) return handle(Signalled{signal});
  if (signal == SIGTERM) handle(StopAsked{StopCause::kInterrupt, {}, signal, "a signal", 0});
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
  if (!state_.stop) time_limit_->look();
}

void Supervisor::look_for_request_file() {
  const auto stop = stops_.take_request(dir_.request());
  if (!stop) std::fprintf(stderr, "dlrun: %s\n", stop.error().text.c_str());
  if (stop && *stop) handle(**stop);
}

}  // namespace dl::supervise
