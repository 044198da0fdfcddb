// SPDX-License-Identifier: Apache-2.0
// One question to a running dlrun, over the connection that control.json describes.
#pragma once

#include <chrono>

#include "common/base/result.h"
#include "launcher/ctl/find_job.h"
#include "launcher/protocol/control_protocol.h"

namespace dl::ctl {

// Connects, says Hello, asks, and waits for a Reply or JobStatus. kNotFound: there is no control.json, dlrun does not
// run; kDenied: not the caller's job; kBusy: nobody answers there (dlrun has just ended, or its host cannot be
// reached); kTimeout: no answer in time.
// Of another user's job (root asks) only the port is believed: the host is the one where Slurm says that the batch
// script runs; of a run without Slurm, this one.
Result<supervise::Message> ask_dlrun(const Job& job, const supervise::Message& question,
                                     std::chrono::milliseconds timeout);

}  // namespace dl::ctl
