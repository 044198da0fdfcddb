// SPDX-License-Identifier: Apache-2.0
// Finds out why Slurm sent a signal, and how much time is left. Preemption, time limit and scancel look alike in the
// job step, so the caller asks Slurm about the job (launcher/slurm_cli). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::supervise {

enum class StopCause {
  kPreemption,    // save, put back into the queue
  kYield,         // the same: dlpolicyd takes back borrowed GPUs
  kResize,        // the same: dlpolicyd has chosen another number of learners
  kTimeLimit,     // the same
  kTogether,      // the same: another run of the job goes back into the queue (launcher/runs)
  kOtherNodes,    // save, and go on in the same job: a companion has come, or goes (companions.h)
  kPause,         // save, put back and hold (dlctl pause)
  kInterrupt,     // Ctrl-C, or SIGTERM without Slurm: save, end
  kCancelled,     // scancel: end
  kSlurmRequeue,  // Slurm has put the job back already and is killing it
  kLeaseLost,     // another job took the checkpoint directory: end without a save
};
const char* stop_cause_name(StopCause cause);  // "preempted", "time limit", ...; static
// The cause in records that dlrun itself reads: the memory of a run (launcher/record), the book of the runs of a job
// (launcher/runs). Static.
const char* stop_cause_key(StopCause cause);
std::optional<StopCause> parse_stop_cause(const std::string& key);

// Nodes that dlpolicyd offers to the job beside those that it has.
struct NodeOffer {
  int nodes = 0;
  int64_t offered_s = 0;  // Unix time
};
// An offer holds for so long.
constexpr int64_t kOfferS = 60;

struct NoticeReading {
  enum class Kind { kStop, kSaveNow, kWatchTimeLimit, kGrow, kNothing };
  Kind kind = Kind::kNothing;
  StopCause cause = StopCause::kPreemption;
  std::optional<int64_t> deadline_ms;  // Unix time at which processes may be killed
  bool ends = false;                   // Slurm has begun to end the job, rather than ask it to stop
  std::optional<NodeOffer> offer;      // of kGrow
};

struct NoticeInput {
  int signal = 0;                         // SIGTERM or SIGUSR2
  std::optional<slurm_cli::JobInfo> job;  // none if slurmctld does not answer
  int64_t now_ms = 0;                     // Unix time
  int64_t signal_ms = 0;                  // Unix time at which the signal came: Slurm counts KillWait from then on
  int64_t signal_lead_s = 120;            // how long before its time limit the job asked for a signal
  int64_t kill_wait_s = 30;               // Slurm's KillWait: between SIGTERM and SIGKILL of a job that is being ended
  int64_t taken_s = 0;                    // NodeOffer::offered_s of the last offer that was read
  int restart_count = 0;                  // how often Slurm had put the job back when this start of it began
};

//   job unknown              SIGTERM: preemption, KillWait seconds; SIGUSR2: save now
//   put back in the meantime stop, put back by Slurm already (its state is then PENDING or COMPLETING)
//   being ended              stop: time limit if that has passed, else cancelled
//   asked to yield           stop, until the deadline that dlpolicyd wrote into its label (admin comment); resized, if
//                            the claimant is the job itself
//   preemption time set      stop, preempted, until the job's end time, unless it is before the job's start
//   end time near            time limit (SIGUSR2: the supervisor decides when to stop; SIGTERM: now)
//   SIGUSR2, nodes offered   grow, if the offer is a new one
//   else                     SIGUSR2: save now and go on; SIGTERM: somebody's `scancel --signal=TERM`: stop, interrupt
NoticeReading read_notice(const NoticeInput& input);

// "yields=CLAIMANT@DEADLINE:LEARNERS" in the label "dl:1 ...": the deadline in seconds since the epoch. None if the
// label asks for nothing.
std::optional<int64_t> yield_deadline_s(const std::string& label);
// The same request's claimant: a job id as Slurm's commands take it; empty if there is none.
std::string yield_claimant(const std::string& label);
// "grow=NODES@OFFERED" in the label. None if the label offers nothing.
std::optional<NodeOffer> node_offer(const std::string& label);

}  // namespace dl::supervise
