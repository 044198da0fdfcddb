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

}  // namespace dl::ctl
