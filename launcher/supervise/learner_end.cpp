// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/learner_end.h"

#include <string>

#include "common/contract/exit_codes.h"

namespace dl::supervise {

using namespace protocol;

namespace {

Failure failure_of(const Exited& exited) {
  Failure failure;
  failure.kind = exited.signal > 0 ? Failure::Kind::kSignal : Failure::Kind::kExit;
  failure.exit = exited.exit;
  if (!exited.error.empty()) {
    failure.kind = Failure::Kind::kNotStarted;
    const bool denied = exited.error.find("Permission denied") != std::string::npos;
    failure.exit = denied ? kExitNotExecutable : kExitNotFound;
  }
  failure.signal = exited.signal;
  failure.asked = exited.asked;
  failure.text = exited.error;
  failure.memory = exited.memory;
  failure.exception = exited.exception;
  failure.last_lines = exited.last_lines;
  return failure;
}

}  // namespace

LearnerEnd judge_exit(const Exited& exited, const BeforeTheEnd& known) {
  LearnerEnd end;
  if (known.hung) {
    end.kind = LearnerEnd::Kind::kBlamed;
    return end;
  }
  const bool started = exited.error.empty();
  const bool stopped = known.stop && (exited.exit == kExitSaved || exited.exit == kExitNotSaved);
  end.exit = exited.signal > 0 ? 128 + exited.signal : exited.exit;
  if (known.served && exited.asked && started) end.exit = 0;
  if (!started || (end.exit != 0 && !stopped) || known.aborted) {
    end.kind = LearnerEnd::Kind::kFailed;
    end.failure = failure_of(exited);
  } else if (stopped) {
    end.kind = LearnerEnd::Kind::kStopped;
  }
  return end;
}

}  // namespace dl::supervise
