// SPDX-License-Identifier: Apache-2.0
// Texts for people about jobs that are asked to give borrowed GPUs back, and what happens to each. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/ctl/cluster_now.h"

namespace dl::ctl {

// What happens to a job on borrowed GPUs when they are taken back: "it is asked to save, and goes back into the queue
// by 14:03:10"; "within the grace" in place of the time if it has not been asked yet. `job`, `claim`: indices into
// view.state.jobs.
std::string what_becomes_of(const ClusterNow& now, int job);

// A line for each job that has been asked and still runs; first those that were asked for this claim. Empty unless the
// claim waits for such jobs.
std::vector<std::string> leaving_for(const ClusterNow& now, int claim);

}  // namespace dl::ctl
