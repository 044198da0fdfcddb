// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/time_limit_watch.h"

#include <unistd.h>

#include <csignal>
#include <utility>

#include "common/base/awake_clock.h"
#include "common/process/signal_sets.h"

namespace dl::supervise {
namespace {

// Whether a process survives a signal, because it catches or ignores it. If the kernel does not say, it is assumed to.
bool survives(pid_t process, int signal) {
  const auto sets = signal_sets_of(process);
  return !sets || SignalSets::has(sets->caught | sets->ignored, signal) || !ends_a_process(signal);
}

}  // namespace

TimeLimitWatch::TimeLimitWatch(StopController* stops, SlurmJob* slurm, const Attempt* attempt,
                               std::optional<OwnSignal> own_signal, pid_t script,
                               std::function<void(const StopAsked&)> ask)
    : stops_(stops),
      slurm_(slurm),
      attempt_(*attempt),
      own_signal_(own_signal),
      script_(script),
      ask_(std::move(ask)) {}

// Finds out which process the user's own signal (--signal) goes to, and whether that process survives it.
void TimeLimitWatch::look_at_own_signal() {
  using Use = StopController::OwnSignalUse;
  if (!own_signal_) return;
  Use use = Use::kNone;
  if (own_signal_->to_script) {
    // If the script has become dlrun (exec), its guard passes the signal on to dlrun, and nothing else gets it.
    if (script_ != ::getppid()) use = survives(script_, own_signal_->number) ? Use::kSavesBefore : Use::kStopsBefore;
  } else if (own_signal_->number != SIGUSR2 && ends_a_process(own_signal_->number) && attempt_.any_attached()) {
    use = Use::kStopsBefore;
  }
  stops_->own_signal_is(use, own_signal_->lead_s);
}

void TimeLimitWatch::look() {
  look_at_own_signal();
  if (const auto stop = stops_->limit_unanswered(slurm_->info(), unix_ms(), attempt_.save_times())) return ask_(*stop);
  if (!stops_->must_ask_about_limit(unix_ms(), attempt_.save_times())) return;
  slurm_->ask([this](const SlurmJob::Answer& job) {
    const auto stop = stops_->limit_known(job, slurm_->info(), unix_ms(), attempt_.save_times());
    if (stop) ask_(*stop);
  });
}

}  // namespace dl::supervise
