// SPDX-License-Identifier: Apache-2.0
// Decides whether nodes are checked again before learners are restarted, and what follows from the result. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/supervise/failure_class.h"
#include "launcher/supervise/restart_policy.h"

namespace dl::supervise {

// What was found on the nodes of the next attempt.
struct CheckedNodes {
  std::vector<std::string> bad;    // names, sorted
  std::vector<std::string> lines;  // a sentence for each finding, for people
};

// True for failures that a node, its GPUs, its network or its disks may have caused. False for the program's own, and
// for those that no node has caused (a port that was taken): a restart after these needs no check.
bool blames_nodes(const FailureClass& failure_class);

// What to do when a restart was decided, and then these nodes were found bad. rest_suffices: the other nodes of the
// allocation can hold the learners, which are restarted there. Else the job goes back into the queue if it may; else it
// fails.
EndDecision decide_without_bad(EndDecision decision, const std::vector<std::string>& bad, bool rest_suffices,
                               const RestartLimits& limits);

}  // namespace dl::supervise
