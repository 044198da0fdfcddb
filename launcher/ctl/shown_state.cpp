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

// The same where Slurm tells that a signal ended the batch script, and all that it had started with it.
std::string no_last_word(JobState state, const std::string& exit_code) {
  const size_t colon = exit_code.find(':');
  const std::string signal = colon == std::string::npos ? "" : exit_code.substr(colon + 1);
  if (signal.empty() || signal == "0") return no_last_word(state);
  return "signal " + signal + " ended the batch script, and dlrun with it, while the job was in state " +
         record::state_name(state);
}

// Whether dlrun recorded that the job was cancelled: its reason then begins with this word.
bool says_cancelled(const record::JobSummary& summary) {
  return summary.state == JobState::kFailed && starts_with(summary.reason, "cancelled");
}

// Whether the record is of an earlier start of the job, which was put back into the queue since, to run again.
bool is_of_earlier_start(const slurm_cli::JobInfo& info, const record::JobSummary& summary) {
  const int last = std::max(summary.start.value_or(info.restarts), summary.once_more.value_or(0));
  return info.restarts > last;
}

ShownState of_ended(const slurm_cli::JobInfo& info, const record::JobSummary& summary) {
  const bool failed = summary.state == JobState::kFailed;
  const bool again = failed && is_of_earlier_start(info, summary);
  if (summary.state == JobState::kCompleted || (failed && !again))
    return {*summary.state, since(summary), summary.reason, says_cancelled(summary)};
  // The record has no end of this start of the job.
  const bool active = summary.state && !record::is_final(*summary.state) && *summary.state != JobState::kPending;
  const std::string before = active || summary.reason.empty() ? "" : "; before: " + summary.reason;
  if (info.state == "COMPLETED") return {JobState::kCompleted, in_ms(info.end_time), "Slurm: COMPLETED" + before};
  // Slurm's FAILED means that the batch script ended by itself, in which case dlrun would have recorded its own end.
  if (info.state == "FAILED" && active)
    return {JobState::kFailed, in_ms(info.end_time), no_last_word(*summary.state, info.exit_code)};
  if (starts_with(info.state, "CANCELLED"))
    return {JobState::kFailed, in_ms(info.end_time), "cancelled, by its user or an operator" + before, true};
  return {JobState::kFailed, in_ms(info.end_time), "Slurm ended it: " + info.state + before};
}

// What the record alone tells of a job that has no dlrun. gone: Slurm says that it does not know the job (any more),
// and its accounting does not tell how it ended.
ShownState of_record(const record::JobSummary& summary, bool gone) {
  ShownState shown{*summary.state, since(summary), summary.reason, says_cancelled(summary)};
  const std::string before = summary.reason.empty() ? "" : "; before: " + summary.reason;
  if (*summary.state == JobState::kPending) {
    if (!gone) return shown;  // it may still wait
    shown.state = JobState::kFailed;
    shown.cancelled = true;
    shown.reason = "no longer in Slurm: cancelled, or ended before dlrun ran again" + before;
  } else if (!record::is_final(*summary.state)) {
    shown.state = JobState::kFailed;
    shown.reason = no_last_word(*summary.state);
  } else if (*summary.state == JobState::kHalted && gone) {
    shown.reason = "no longer in Slurm" + before;
  }
  return shown;
}

}  // namespace

bool has_ended(const std::string& slurm_state) {
  const char* const kEnds[] = {"COMPLETED", "FAILED",    "CANCELLED",     "TIMEOUT",  "NODE_FAIL",
                               "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE", "REVOKED"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](const char* end) { return starts_with(slurm_state, end); });
}

const char* shown_name(const ShownState& shown) {
  return shown.cancelled ? "CANCELLED" : state_word(shown);
}

const char* state_word(const ShownState& shown) {
  return shown.unknown ? "UNKNOWN" : record::state_name(shown.state);
}

ShownState shown_state(const std::optional<slurm_cli::JobInfo>& info, const std::optional<record::JobComment>& comment,
                       const record::JobSummary& summary, bool alive, const std::optional<std::string>& forgotten) {
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
  if (forgotten && !alive && has_ended(*forgotten)) {
    slurm_cli::JobInfo ended;
    ended.state = *forgotten;
    return of_ended(ended, known);
  }
  if (!known.state) return {JobState::kPending, std::nullopt, "nothing is recorded"};
  if (!alive) return of_record(known, forgotten.has_value());
  return {*known.state, since(known), known.reason, says_cancelled(known)};
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
