// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/job_state.h"

#include <algorithm>

namespace dl::record {
namespace {

struct Row {
  const char* name;
  JobState state;
  int progress;  // order in which a run passes through them
};

constexpr Row kRows[] = {
    {"QUEUED", JobState::kQueued, 0},         {"PENDING", JobState::kPending, 1},
    {"DEPLOY", JobState::kDeploy, 2},         {"DOWNLOADING", JobState::kDownloading, 3},
    {"PROCESSING", JobState::kProcessing, 4}, {"STORING", JobState::kStoring, 5},
    {"HALTED", JobState::kHalted, 6},         {"COMPLETED", JobState::kCompleted, 7},
    {"FAILED", JobState::kFailed, 8},
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
    // An active state before DEPLOY: dlrun was killed before it could write what became of the attempt.
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

JobState overall_state(const std::vector<JobState>& learners) {
  if (learners.empty()) return JobState::kPending;
  if (std::find(learners.begin(), learners.end(), JobState::kFailed) != learners.end()) return JobState::kFailed;
  return *std::min_element(learners.begin(), learners.end(),
                           [](JobState a, JobState b) { return row(a).progress < row(b).progress; });
}

}  // namespace dl::record
