// SPDX-License-Identifier: Apache-2.0
// For people: who has been asked to give lent GPUs back, and what becomes of each. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/ctl/cluster_now.h"

namespace dl::ctl {

// "asked to save by 14:03:10, then it goes back into the queue", "is ended at 14:03:10": of a job that runs on lent
// GPUs, if they were taken back now or, where it has been asked, by then.
std::string what_becomes_of(const ClusterNow& now, int job);

// A line for each job that has been asked and has not gone yet, those first that were asked for this claim. Empty
// unless the claim waits for such.
std::vector<std::string> leaving_for(const ClusterNow& now, int claim);

}  // namespace dl::ctl
