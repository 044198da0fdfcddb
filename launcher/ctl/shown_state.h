// SPDX-License-Identifier: Apache-2.0
// Decides which state of a job to show, from what Slurm says and what its record holds. Pure.
//
// While the job waits in the queue, Slurm decides: QUEUED if it waits for a quota, HALTED if dlrun paused it and it is
// held, else PENDING. While it runs, its record decides, if the record is of this start of the job. After that:
//
//   newest state recorded         Slurm says CANCELLED    Slurm says anything else    Slurm does not know the job
//   none, or one in which dlrun   CANCELLED               what Slurm says             FAILED: dlrun was killed
//     runs (PROCESSING...)
//   PENDING (put back)            CANCELLED               what Slurm says             CANCELLED, most likely
//   HALTED (paused, held)         CANCELLED               what Slurm says             HALTED
//   FAILED in this start          FAILED                  FAILED                      FAILED
//   FAILED in an earlier start    CANCELLED               what Slurm says             FAILED
//   COMPLETED                     COMPLETED               COMPLETED                   COMPLETED
//
// FAILED is shown as CANCELLED where dlrun recorded that the job was cancelled. An earlier start: the job was put back
// into the queue since, to run again. (Where Slurm itself puts it back once more although nothing is left to do, the
// record is the end.) A job that is COMPLETED has done all that it was to do, even if it was put back and cancelled
// after that. Where slurmctld has forgotten a job, the state in its accounting is what Slurm says; it does not tell
// that the job was put back, so a recorded failure then counts.
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

// Whether a job with this state of Slurm's has ended: "COMPLETED", "CANCELLED by 1000", ...
bool has_ended(const std::string& slurm_state);

// info: none if Slurm does not know the job, or was not asked. alive: dlrun answers, or that is unknown. forgotten: set
// if Slurm has said that it does not know the job (any more): the state that its accounting has, or an empty text.
ShownState shown_state(const std::optional<slurm_cli::JobInfo>& info, const std::optional<record::JobComment>& comment,
                       const record::JobSummary& summary, bool alive,
                       const std::optional<std::string>& forgotten = std::nullopt);

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
