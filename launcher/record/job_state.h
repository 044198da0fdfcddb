// SPDX-License-Identifier: Apache-2.0
// The states of a job and of a learner, and which may follow which. The table is FfDL's, with HALTED -> PENDING
// (resume) and every active state -> PENDING (requeue) added, and DEPLOY in its place between PENDING and DOWNLOADING.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl::record {

enum class JobState { kQueued, kPending, kDeploy, kDownloading, kProcessing, kStoring, kCompleted, kFailed, kHalted };

constexpr JobState kAllJobStates[] = {JobState::kQueued,      JobState::kPending,    JobState::kDeploy,
                                      JobState::kDownloading, JobState::kProcessing, JobState::kStoring,
                                      JobState::kCompleted,   JobState::kFailed,     JobState::kHalted};

// "PROCESSING"; static.
const char* state_name(JobState state);
std::optional<JobState> parse_state(std::string_view name);

// True for COMPLETED, FAILED and HALTED: nothing runs any more.
bool is_final(JobState state);

// Whether `to` may follow `from` for a job, or for a learner within one attempt. A state may be repeated only if it is
// PROCESSING (FfDL writes one row per learner that gets there).
bool transition_allowed(JobState from, JobState to);

}  // namespace dl::record
