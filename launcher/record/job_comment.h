// SPDX-License-Identifier: Apache-2.0
// The job's Slurm comment, in which `squeue -o %k`, and after the job `sacct -o Comment`, show its state:
//   [USER TEXT | ]dl:STATE attempt=A step=S idle=GPUS@SINCE pace=... scale=... vote=N dir=/path/dl-12 reason=text
// (dir="/path /dl-12" with \x09 for a tab, where the path would not come back as it is; the reason reaches to the end).
// step=, idle=, pace= (common/scaling/pace_hint.h), scale= (common/scaling/scale_hint.h), vote=
// (common/contract/vote_hint.h) and reason= are left out when unknown. A text of the user's own is kept in front. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/contract/idle_hint.h"
#include "common/scaling/pace_hint.h"
#include "launcher/record/job_state.h"

namespace dl::record {

struct JobComment {
  std::string user_text;
  JobState state = JobState::kPending;
  int attempt = 0;
  int64_t step = -1;        // newest train step known to be saved; -1 = unknown
  IdleHint idle;            // GPUs not used for longer than [idle] in dl.toml allows
  PaceHint pace;            // how far it has trained, for dlpolicyd's metrics
  std::string scale;        // format_scale_hint(), of an elastic job
  std::optional<int> vote;  // learners that the votes of an elastic job ask for
  std::string dir;          // job directory, absolute
  std::string reason;
};

// At most 1000 bytes (Slurm's limit is 1024); the reason is shortened first. Control characters become blanks.
std::string format_comment(const JobComment& comment);
// None if the text has no part "dl:...".
std::optional<JobComment> parse_comment(const std::string& text);
// The part of a comment that the user wrote.
std::string user_part(const std::string& text);

}  // namespace dl::record
