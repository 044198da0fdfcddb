// SPDX-License-Identifier: Apache-2.0
// Decides whether an agent asks Slurm to put the job back after dlrun, its guard and perhaps their node were lost.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/record/event_log.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::guard {

// Agents on the first kAskers nodes of a job ask, each kNextAsker after the one before. Each checks first whether the
// request is still needed.
constexpr int kAskers = 8;
constexpr std::chrono::milliseconds kNextAsker{2000};

// What a connection to the port of the lost dlrun tells.
enum class Door {
  kOpen,    // dlrun, or another process, listens
  kClosed,  // refused: the node lives, dlrun does not
  kSilent,  // no answer: the node is off or cut off
};

// How long the first node waits before it asks. In that time the guard of a killed dlrun removes control.json; or a
// living dlrun that has only lost the connection to this node leaves the node out, or puts the job back itself.
std::chrono::milliseconds patience(Door door);

struct Left {
  slurm_cli::JobInfo job;     // as Slurm sees it now
  int restart_count = 0;      // Slurm's restart count when this run of the job began
  std::string node;           // the node of the agent that asks
  bool control_ours = false;  // control.json is that of the lost dlrun: it neither ended in good order nor was replaced
  bool newest_attempt = false;  // no attempt after that of the agent has begun
  bool end_recorded = false;    // says_its_end() of the job's events and the attempt of the agent
};

// Whether the newest of these events about the job itself is the end of this attempt, or that the job was put back.
// dlrun records that before it removes control.json, and can be killed in between.
bool says_its_end(const std::vector<record::Event>& events, int attempt);

// True only for a batch job that may be requeued, in the same run and attempt, if it is
//   RUNNING              and still has this node: the batch script goes on, or Slurm has not noticed yet
//   COMPLETING, FAILED   because the script, or dlrun in its place, was killed or crashed (exit code 137:0, 0:9 and the
//                        like). Slurm's reason (NonZeroExitCode, RaisedSignal, JobLaunchFailure) tells this apart from
//                        scancel, the time limit and preemption, which Slurm shows as COMPLETING, too.
// False for all other states: somebody wanted them, or Slurm puts the job back itself (NODE_FAIL).
bool may_requeue(const Left& left);

// Whether somebody has cancelled the job and nobody but the agents is left to record that: Slurm kills dlrun together
// with the shell that ran it.
enum class Cancelled {
  kNo,
  kNotYet,  // ask again: scontrol shows COMPLETING for every job that ends, and the script's exit code a moment later
  kYes,     // the script was ended by a signal, Slurm gives no other reason, and dlrun has recorded no end itself
};
Cancelled was_cancelled(const Left& left);

}  // namespace dl::guard
