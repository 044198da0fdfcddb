// SPDX-License-Identifier: Apache-2.0
// Whether nodes are checked again before the learners are started anew, and what the result means. Pure.
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

// A failure that a node, its GPUs, its network or its disks may be to blame for. Not the program's own failures, nor
// what no node is the cause of (a port that was taken): such a restart costs nothing more.
bool blames_nodes(const FailureClass& failure_class);

// A restart was decided, and then these nodes were found bad. rest_suffices: the others of the allocation hold the
// learners. Else back to the queue, away from them, as far as the job may go there; else it fails.
EndDecision decide_without_bad(EndDecision decision, const std::vector<std::string>& bad, bool rest_suffices,
                               const RestartLimits& limits);

}  // namespace dl::supervise
