// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/shown_state.h"

#include <algorithm>

#include "launcher/ctl/wait_reason.h"

namespace dl::ctl {
namespace {

using record::JobState;

bool starts_with(const std::string& text, const char* prefix) {
  return text.rfind(prefix, 0) == 0;
}

bool has_ended(const std::string& state) {
  const char* const kEnds[] = {"COMPLETED", "FAILED",    "CANCELLED",     "TIMEOUT",  "NODE_FAIL",
                               "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE", "REVOKED"};
  return std::any_of(std::begin(kEnds), std::end(kEnds), [&](const char* end) { return starts_with(state, end); });
}

bool is_waiting(const std::string& state) {
  return state == "PENDING" || state == "REQUEUED" || state == "REQUEUE_HOLD" || state == "SPECIAL_EXIT";
}

// All processes of the job are stopped, and will go on where they were.
bool is_suspended(const std::string& state) {
  return state == "SUSPENDED" || state == "STOPPED";
}

std::optional<int64_t> in_ms(const std::optional<int64_t>& seconds) {
  if (!seconds) return std::nullopt;
  return *seconds * 1000;
}

std::optional<int64_t> since(const record::JobSummary& summary) {
  if (!summary.state || summary.state_since_ms <= 0) return std::nullopt;
  return summary.state_since_ms;
}

ShownState of_waiting(const slurm_cli::JobInfo& info, const record::JobSummary& summary) {
  // For some ways of being held, squeue's reason is "job requeued in held state" or "launch failed requeued held".
  const bool held = info.held || starts_with(info.reason, "JobHeld") || info.reason.find(" held") != std::string::npos;
  if (held && summary.state == JobState::kHalted) return {JobState::kHalted, since(summary), summary.reason};
  // Slurm has put the job back by itself, and dlrun will run nothing (supervise/once_more.h).
  if (summary.once_more && summary.state && info.restarts <= *summary.once_more)
    return {*summary.state, since(summary), summary.reason + "; Slurm starts the job once more, which runs nothing"};
  ShownState shown{is_quota_reason(info.reason) ? JobState::kQueued : JobState::kPending,
                   summary.state ? since(summary) : in_ms(info.submit_time), explain_reason(info.reason)};
  if (summary.state == JobState::kPending && !summary.reason.empty()) shown.reason += "; " + summary.reason;
  return shown;
}

ShownState of_running(const slurm_cli::JobInfo& info, const record::JobSummary& summary) {
  const bool older =
      !summary.state || *summary.state == JobState::kPending ||
      (record::is_final(*summary.state) && info.start_time && summary.state_since_ms < *info.start_time * 1000);
  if (older) return {JobState::kDeploy, in_ms(info.start_time), "Slurm has started it, dlrun has not spoken yet"};
  ShownState shown{*summary.state, since(summary), summary.reason};
  if (is_suspended(info.state))
    shown.reason =
        "suspended, by a person or for another job" + (shown.reason.empty() ? "" : "; before: " + shown.reason);
  return shown;
}

// The reason of a job whose record ends in this state. Only a dlrun that was killed leaves such a record.
std::string no_last_word(JobState state) {
  return std::string("dlrun was killed, or its node was lost, while the job was in state ") + record::state_name(state);
}

// Whether dlrun recorded that the job was cancelled: its reason then begins with this word.
bool says_cancelled(const record::JobSummary& summary) {
  return summary.state == JobState::kFailed && starts_with(summary.reason, "cancelled");
}

ShownState of_ended(const slurm_cli::JobInfo& info, const record::JobSummary& summary) {
  // A recorded end counts, except kHalted: a job that was paused and then ended by Slurm has ended as Slurm reports.
  if (summary.state && record::is_final(*summary.state) && *summary.state != JobState::kHalted) {
    return {*summary.state, since(summary), summary.reason, says_cancelled(summary)};
  }
  if (info.state == "COMPLETED") return {JobState::kCompleted, in_ms(info.end_time), "Slurm: COMPLETED"};
  // Slurm's FAILED means that the batch script ended by itself, in which case dlrun would have recorded its own end.
  if (info.state == "FAILED" && summary.state && !record::is_final(*summary.state) &&
      *summary.state != JobState::kPending)
    return {JobState::kFailed, in_ms(info.end_time), no_last_word(*summary.state)};
  if (starts_with(info.state, "CANCELLED"))
    return {JobState::kFailed, in_ms(info.end_time), "cancelled, by its user or an operator", true};
  return {JobState::kFailed, in_ms(info.end_time), "Slurm ended it: " + info.state};
}

}  // namespace

const char* shown_name(const ShownState& shown) {
  return shown.cancelled ? "CANCELLED" : state_word(shown);
}

const char* state_word(const ShownState& shown) {
  return shown.unknown ? "UNKNOWN" : record::state_name(shown.state);
}

ShownState shown_state(const std::optional<slurm_cli::JobInfo>& info, const std::optional<record::JobComment>& comment,
                       const record::JobSummary& summary, bool alive) {
  // If the record cannot be read (it is another user's, or on another file system), the job's comment takes its place.
  record::JobSummary known = summary;
  if (!known.state && comment) {
    known.state = comment->state;
    known.attempts = comment->attempt;
    known.newest_step = comment->step;
    known.reason = comment->reason;
    if (info && info->start_time && !is_waiting(info->state)) known.state_since_ms = *info->start_time * 1000;
  }
  if (info) {
    if (is_waiting(info->state)) return of_waiting(*info, known);
    return has_ended(info->state) ? of_ended(*info, known) : of_running(*info, known);
  }
  if (!known.state) return {JobState::kPending, std::nullopt, "nothing is recorded"};
  ShownState shown{*known.state, since(known), known.reason, says_cancelled(known)};
  if (!record::is_final(*known.state) && !alive) {
    shown.state = JobState::kFailed;
    shown.reason = no_last_word(*known.state);
  }
  return shown;
}

size_t telling_run(const std::vector<RunWord>& runs, bool waits) {
  const auto has_ended = [](const std::optional<JobState>& state) {
    return state == JobState::kCompleted || state == JobState::kFailed;
  };
  std::optional<size_t> paused;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (has_ended(runs[i].shown.state) || (waits && has_ended(runs[i].recorded))) continue;
    if (runs[i].shown.state != JobState::kHalted) return i;
    if (!paused) paused = i;
  }
  return paused.value_or(0);
}

}  // namespace dl::ctl
