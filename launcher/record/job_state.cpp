// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/job_state.h"

#include <algorithm>

namespace dl::record {
namespace {

struct Row {
  const char* name;
  JobState state;
};

constexpr Row kRows[] = {
    {"QUEUED", JobState::kQueued},           {"PENDING", JobState::kPending},       {"DEPLOY", JobState::kDeploy},
    {"DOWNLOADING", JobState::kDownloading}, {"PROCESSING", JobState::kProcessing}, {"STORING", JobState::kStoring},
    {"HALTED", JobState::kHalted},           {"COMPLETED", JobState::kCompleted},   {"FAILED", JobState::kFailed},
};

const Row& row(JobState state) {
  return *std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.state == state; });
}

bool is_active(JobState state) {
  return state == JobState::kDeploy || state == JobState::kDownloading || state == JobState::kProcessing ||
         state == JobState::kStoring;
}

}  // namespace

const char* state_name(JobState state) {
  return row(state).name;
}

std::optional<JobState> parse_state(std::string_view name) {
  for (const Row& r : kRows)
    if (name == r.name) return r.state;
  return std::nullopt;
}

bool is_final(JobState state) {
  return state == JobState::kCompleted || state == JobState::kFailed || state == JobState::kHalted;
}

bool transition_allowed(JobState from, JobState to) {
  switch (to) {
    case JobState::kQueued:
      return false;
    case JobState::kPending:
      return from == JobState::kQueued || from == JobState::kHalted || is_active(from);
    // The job may be in an active state before DEPLOY, if dlrun was killed before it could record the end of the
    // attempt.
    case JobState::kDeploy:
      return from == JobState::kPending || from == JobState::kHalted || is_active(from);
    case JobState::kDownloading:
      return from == JobState::kPending || from == JobState::kDeploy;
    case JobState::kProcessing:
    case JobState::kStoring:
      return from == JobState::kPending || from == JobState::kDeploy || from == JobState::kDownloading ||
             from == JobState::kProcessing;
    case JobState::kCompleted:
    case JobState::kFailed:
    case JobState::kHalted:
      return from == JobState::kPending || is_active(from);
  }
  return false;
}

}  // namespace dl::record
