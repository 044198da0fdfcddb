// SPDX-License-Identifier: Apache-2.0
// One question to a running dlrun, over the connection that control.json describes.
#pragma once

#include <chrono>

#include "common/base/result.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/record/job_dir.h"

namespace dl::ctl {

// Connects, says Hello, asks, and waits for a Reply or JobStatus. kNotFound: there is no control.json, dlrun does not
// run; kDenied: not the caller's job; kBusy: nobody answers there (dlrun has just ended, or its host cannot be
// reached); kTimeout: no answer in time.
Result<supervise::Message> ask_dlrun(const record::JobDir& dir, const supervise::Message& question,
                                     std::chrono::milliseconds timeout);

}  // namespace dl::ctl
