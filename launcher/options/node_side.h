// SPDX-License-Identifier: Apache-2.0
// A batch job with --dl-* flags on a node where spank_dl.so does not run: plugstack.conf there does not load it, or
// says "optional" and it is not there. Programs that srun starts on that node would lack what the flags give them, and
// the rules of network = "job" would not hold, so the job goes back into the queue.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl {

// Returns at once where spank_dl.so has run, and outside of batch jobs. Else the job is put back, which ends this
// process with it, and held at the third time. An error if it was put back and this process still lives. If the job may
// not be put back, a line says so and it goes on: dlrun itself needs nothing of the plugin. Blocks.
Status check_node_side();

// How often a job has been put back for this, as the reason in its comment tells; 0 for other reasons.
int times_without_node_side(const std::string& reason);
// The reason for the time after `before` others; it holds the job if it is the last one.
std::string reason_without_node_side(const std::string& node, const std::string& job, int before, bool* hold);

}  // namespace dl
