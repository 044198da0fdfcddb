// SPDX-License-Identifier: Apache-2.0
// One question to a running dlrun, over the connection that control.json describes.
#pragma once

#include <chrono>

#include "common/base/result.h"
#include "launcher/ctl/find_job.h"
#include "launcher/protocol/control_protocol.h"

namespace dl::ctl {

// Connects, says Hello, asks, and waits for a Reply or JobStatus. kNotFound: there is no control.json, so dlrun does
// not run; kDenied: not the caller's job; kBusy: no connection (dlrun has just ended, or its host cannot be reached);
// kTimeout: no answer in time.
// When root asks about another user's job, only the port is taken from control.json: the host is the one on which Slurm
// says that the batch script runs, or for a run without Slurm this machine.
Result<protocol::ControlMessage> ask_dlrun(const Job& job, const protocol::ControlMessage& question,
                                           std::chrono::milliseconds timeout);

}  // namespace dl::ctl
