// SPDX-License-Identifier: Apache-2.0
// What the end of a learner counts as, as its agent has reported it. Pure.
#pragma once

#include "launcher/protocol/control_protocol.h"
#include "launcher/supervise/first_cause.h"

namespace dl::supervise {

// What dlrun itself knows of a learner that has ended.
struct BeforeTheEnd {
  bool hung = false;     // Learner::hung
  bool stop = false;     // RunState::stop: there is one
  bool served = false;   // Attempt::served()
  bool aborted = false;  // it has called MPI_Abort, after which no exit code is a success
};

struct LearnerEnd {
  enum class Kind {
    kWell,
    kStopped,  // it did as it was asked: it saved, or ended without a save
    kFailed,
    kBlamed,  // it was blamed for a hang before, and only that failure counts
  };
  Kind kind = Kind::kWell;
  int exit = 0;     // kWell, kStopped: its exit status
  Failure failure;  // kFailed: without its rank and host, its time and train step, which Attempt::fail() adds
};

LearnerEnd judge_exit(const protocol::Exited& exited, const BeforeTheEnd& known);

}  // namespace dl::supervise
