// SPDX-License-Identifier: Apache-2.0
// dlrun, its guard and perhaps their node are gone: whether an agent that is left asks Slurm to put the job back. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::guard {

// So many nodes of a job ask, one after the other, the first of them almost at once. Each looks before whether it is
// still to be done.
constexpr int kAskers = 8;
constexpr std::chrono::milliseconds kNextAsker{2000};

// How the port that dlrun listened at answers.
enum class Door {
  kOpen,    // somebody is there
  kClosed,  // the node lives, dlrun does not
  kSilent,  // the node is off or cut off
};

// Until the first may ask. The guard of a dlrun that was killed removes control.json at once; a dlrun that lives, and
// that this node alone is cut off from, leaves this node out or puts the job back itself within some seconds.
std::chrono::milliseconds patience(Door door);

struct Left {
  slurm_cli::JobInfo job;       // as Slurm sees it now
  int restart_count = 0;        // how often it had been put back when this run of it began
  std::string node;             // our own
  bool control_ours = false;    // control.json is that of our dlrun: it has neither ended in good order nor a successor
  bool newest_attempt = false;  // no later attempt than ours has begun
};

// Yes only for a batch job that may be requeued, in the same run, that still has this node, and
//   RUNNING                         the batch script has more to do, or Slurm has not noticed
//   COMPLETING or FAILED            because the script, or dlrun in its place, was killed or crashed (exit code 137:0
//   or
//                                   0:9 and the like). Slurm tells by the reason (NonZeroExitCode, RaisedSignal,
//                                   JobLaunchFailure) that it was not scancel, the time limit or preemption, which it
//                                   shows as COMPLETING, too.
// No for all other states: they are somebody's wish, or Slurm puts the job back itself (NODE_FAIL).
bool may_requeue(const Left& left);

}  // namespace dl::guard
