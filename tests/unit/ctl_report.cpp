// SPDX-License-Identifier: Apache-2.0
// Of which learners a report shows the last lines.
#include <gtest/gtest.h>

#include "launcher/ctl/report_look.h"

namespace dl::ctl {
namespace {

using Chosen = std::vector<std::pair<int, int>>;

record::Event failed(int attempt, int rank) {
  record::Event event;
  event.attempt = attempt;
  event.learner = rank;
  event.state = record::JobState::kFailed;
  return event;
}

TEST(ReportLookTest, TheLearnerThatFailedFirstIsShownOfEachAttempt) {
  EXPECT_EQ(telling_logs({failed(1, 3), failed(1, 0), failed(3, 2)}, 4), (Chosen{{1, 3}, {1, 0}, {3, 2}}));
}

TEST(ReportLookTest, OfManyAttemptsTheNewestAreShown) {
  std::vector<record::Event> events;
  for (int attempt = 1; attempt <= 20; ++attempt)
    for (int rank = 0; rank < 5; ++rank) events.push_back(failed(attempt, rank));
  EXPECT_EQ(telling_logs(events, 20), (Chosen{{15, 0}, {16, 0}, {17, 0}, {18, 0}, {19, 0}, {20, 0}}));
  EXPECT_EQ(telling_logs({events.begin() + 90, events.end()}, 20),
            (Chosen{{19, 0}, {19, 1}, {19, 2}, {20, 0}, {20, 1}, {20, 2}}));
}

TEST(ReportLookTest, WithoutAFailureLearner0IsShown) {
  EXPECT_EQ(telling_logs({}, 2), (Chosen{{2, 0}}));
  EXPECT_TRUE(telling_logs({}, 0).empty());
}

}  // namespace
}  // namespace dl::ctl
