// SPDX-License-Identifier: Apache-2.0
// The table of transitions against FfDL's, cell by cell, and the aggregation over learners.
#include "launcher/record/job_state.h"

#include <gtest/gtest.h>

#include <set>

namespace dl::record {
namespace {

using S = JobState;

// Every pair that is allowed; all others are refused. Rows of FfDL's jobmonitor.go, then ours.
const std::set<std::pair<S, S>>& allowed() {
  static const std::set<std::pair<S, S>> pairs = {
      {S::kPending, S::kDownloading},
      {S::kPending, S::kProcessing},
      {S::kDownloading, S::kProcessing},
      {S::kProcessing, S::kProcessing},
      {S::kPending, S::kStoring},
      {S::kDownloading, S::kStoring},
      {S::kProcessing, S::kStoring},
      {S::kPending, S::kCompleted},
      {S::kDownloading, S::kCompleted},
      {S::kProcessing, S::kCompleted},
      {S::kStoring, S::kCompleted},
      {S::kPending, S::kFailed},
      {S::kDownloading, S::kFailed},
      {S::kProcessing, S::kFailed},
      {S::kStoring, S::kFailed},
      {S::kPending, S::kHalted},
      {S::kDownloading, S::kHalted},
      {S::kProcessing, S::kHalted},
      {S::kStoring, S::kHalted},
      // Ours: DEPLOY stands before DOWNLOADING; resume; requeue; a start after a kill -9 of dlrun.
      {S::kPending, S::kDeploy},
      {S::kHalted, S::kDeploy},
      {S::kDeploy, S::kDownloading},
      {S::kDeploy, S::kProcessing},
      {S::kDeploy, S::kStoring},
      {S::kDeploy, S::kCompleted},
      {S::kDeploy, S::kFailed},
      {S::kDeploy, S::kHalted},
      {S::kHalted, S::kPending},
      {S::kQueued, S::kPending},
      {S::kDeploy, S::kPending},
      {S::kDownloading, S::kPending},
      {S::kProcessing, S::kPending},
      {S::kStoring, S::kPending},
      {S::kDeploy, S::kDeploy},
      {S::kDownloading, S::kDeploy},
      {S::kProcessing, S::kDeploy},
      {S::kStoring, S::kDeploy},
  };
  return pairs;
}

TEST(JobStateTest, ExactlyTheTableIsAllowed) {
  for (S from : kAllJobStates)
    for (S to : kAllJobStates)
      EXPECT_EQ(transition_allowed(from, to), allowed().count({from, to}) != 0)
          << state_name(from) << " -> " << state_name(to);
}

TEST(JobStateTest, NamesAreReadBack) {
  for (S state : kAllJobStates) EXPECT_EQ(parse_state(state_name(state)), state);
  EXPECT_FALSE(parse_state("processing"));
  EXPECT_FALSE(parse_state(""));
}

}  // namespace
}  // namespace dl::record
