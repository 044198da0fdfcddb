// SPDX-License-Identifier: Apache-2.0
// Watches for the end of the job's time: the time limit as Slurm says it, and the user's own signal before it
// (own_signal.h). StopController decides when the run has to stop for them; TimeLimitWatch asks Slurm for what that
// decision needs, and finds out who gets the signal. All on the loop's thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

#include "common/contract/own_signal.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/slurm_job.h"
#include "launcher/supervise/stop_controller.h"

namespace dl::supervise {

class TimeLimitWatch {
 public:
  // stops, slurm, attempt: borrowed. script: the batch script's shell, which may get own_signal; 0: none. ask: asks for
  // a stop.
  TimeLimitWatch(StopController* stops, SlurmJob* slurm, const Attempt* attempt, std::optional<OwnSignal> own_signal,
                 pid_t script, std::function<void(const StopAsked&)> ask);

  // To be called each second while learners run and no stop has been asked for.
  void look();

 private:
  void look_at_own_signal();

  StopController* stops_;
  SlurmJob* slurm_;
  const Attempt& attempt_;
  std::optional<OwnSignal> own_signal_;
  pid_t script_;
  std::function<void(const StopAsked&)> ask_;
};

}  // namespace dl::supervise
