// SPDX-License-Identifier: Apache-2.0
// Decides which state of a job to show, from what Slurm says and what its record holds. Pure.
//
// While the job waits in the queue, Slurm decides: QUEUED if it waits for a quota, HALTED if dlrun paused it and it is
// held, else PENDING. While it runs, its record decides, if the record is of this start of the job. After that the
// record decides if it has an end; else Slurm's state of the ended job is shown.
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
  bool unknown = false;             // `state` means nothing: Slurm does not know the job, and its record cannot be read
};
// The name of the state, for people: CANCELLED for a job that was cancelled, UNKNOWN. Static.
const char* shown_name(const ShownState& shown);
// The same for programs: FAILED for a cancelled job, which the JSON marks in a member of its own. Static.
const char* state_word(const ShownState& shown);

// info: none if Slurm does not know the job. alive: dlrun answers.
ShownState shown_state(const std::optional<slurm_cli::JobInfo>& info, const std::optional<record::JobComment>& comment,
                       const record::JobSummary& summary, bool alive);

// One dlrun of a job: the state to show, and the newest state in its record (none: nothing is recorded).
struct RunWord {
  ShownState shown;
  std::optional<record::JobState> recorded;
};
// For a job that was asked to pause: the index of the dlrun whose state tells whether the pause is complete. That is
// the first one still at work, else the first that is paused, else the first. waits: the job is in the queue again;
// dlruns whose record had ended before the pause are then skipped, too.
size_t telling_run(const std::vector<RunWord>& runs, bool waits);

}  // namespace dl::ctl
