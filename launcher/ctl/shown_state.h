// SPDX-License-Identifier: Apache-2.0
// Which state to show of a job, from what Slurm says and what its record holds. Pure.
//
// While Slurm has a job in its queue, Slurm is right: QUEUED for a quota, PENDING for anything else, HALTED if dlrun
// paused it and it is held. While it runs, the record is right, if it is of this start of the job. Afterwards the
// record is, if it ends; else Slurm's word for the end counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/record/event_log.h"
#include "launcher/record/job_comment.h"
#include "launcher/record/job_state.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {

struct ShownState {
  record::JobState state = record::JobState::kPending;
  std::optional<int64_t> since_ms;  // since the epoch
  std::string reason;               // may be empty
  bool cancelled = false;           // kFailed because somebody cancelled the job (scancel)
};
// The name of the state, for people; CANCELLED for a job that was cancelled. Static.
const char* shown_name(const ShownState& shown);

// info: none if Slurm does not know the job. alive: dlrun answers.
ShownState shown_state(const std::optional<slurm_cli::JobInfo>& info, const std::optional<record::JobComment>& comment,
                       const record::JobSummary& summary, bool alive);

// One dlrun of a job: its state as it is shown, and the newest of its record (none: nothing is recorded).
struct RunWord {
  ShownState shown;
  std::optional<record::JobState> recorded;
};
// Of a job that was told to pause, the dlrun that tells whether it has come to rest: one that is at work still, else
// one that is paused, else the first. What ended before the pause stays ended, also when the job `waits` in the queue
// again.
size_t telling_run(const std::vector<RunWord>& runs, bool waits);

}  // namespace dl::ctl
