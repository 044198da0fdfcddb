// SPDX-License-Identifier: Apache-2.0
// The course of a job from its events, and its picture.
#include "launcher/report/course.h"

#include <gtest/gtest.h>

#include "launcher/report/timeline.h"
#include "tests/unit/report_support.h"

namespace dl::report {
namespace {

using record::JobState;

TEST(ReportCourseTest, AttemptsBeginAndEndWithTheirEvents) {
  const auto events = two_attempts();
  const Course course = course_of(events, false, kBegin + 1'000'000);
  ASSERT_EQ(course.attempts.size(), 2U);
  EXPECT_EQ(course.attempts[0].began_ms, kBegin);
  EXPECT_EQ(course.attempts[0].ended_ms, kBegin + 72'000);
  EXPECT_EQ(course.attempts[0].trained_ms, 62'000);
  EXPECT_EQ(course.attempts[0].saved_step, 100);
  EXPECT_FALSE(course.attempts[0].end);
  EXPECT_EQ(course.attempts[0].why, "restarted after a failure");
  EXPECT_EQ(course.attempts[1].end, JobState::kHalted);
  EXPECT_EQ(course.attempts[1].why, "paused by dlctl");
  EXPECT_EQ(course.attempts[1].ended_ms, kBegin + 150'000);
  EXPECT_FALSE(course.cut_off);
  ASSERT_EQ(course.spans.size(), 5U);
  EXPECT_EQ(course.spans[1].state, JobState::kProcessing);
  EXPECT_EQ(course.spans[1].to_ms, kBegin + 72'000);
  EXPECT_EQ(course.to_ms, kBegin + 150'000);
}

TEST(ReportCourseTest, SavesAndFailuresAreNoFurtherEvents) {
  const auto events = two_attempts();
  const Course course = course_of(events, false, kBegin + 1'000'000);
  ASSERT_EQ(course.saves.size(), 2U);
  EXPECT_EQ(course.saves[1].step, 200);
  ASSERT_EQ(course.failures.size(), 1U);
  EXPECT_EQ(course.failures[0]->reason, "ValueError: no");
  EXPECT_EQ(course.changes.size(), 5U);
}

TEST(ReportCourseTest, APausedJobInTheQueueIsPausedUntilNow) {
  const auto events = two_attempts();
  const Course course = course_of(events, true, kBegin + 1'000'000);
  EXPECT_EQ(course.spans.back().state, JobState::kHalted);
  EXPECT_EQ(course.to_ms, kBegin + 1'000'000);
  EXPECT_EQ(course.attempts.back().ended_ms, kBegin + 150'000);
}

TEST(ReportCourseTest, ARecordWithoutAnEndIsSaidToBeCutOff) {
  const std::vector<record::Event> events{event(0, 1, JobState::kDeploy), event(5, 1, JobState::kProcessing)};
  EXPECT_TRUE(course_of(events, false, kBegin + 60'000).cut_off);
  EXPECT_FALSE(course_of(events, true, kBegin + 60'000).cut_off);
  EXPECT_EQ(course_of(events, false, kBegin + 60'000).to_ms, kBegin + 5'000);
}

TEST(ReportCourseTest, ClocksThatRunBackOrAheadMakeNoNegativeTimes) {
  std::vector<record::Event> events{event(100, 1, JobState::kDeploy), event(50, 1, JobState::kProcessing),
                                    event(0, 1, JobState::kCompleted)};
  events[2].time_ms = INT64_MAX;
  events.push_back(event(0, 1, JobState::kCompleted));
  events.back().time_ms = INT64_MIN;
  const Course course = course_of(events, false, kBegin + 200'000);
  int64_t before = 0;
  for (const Span& span : course.spans) {
    EXPECT_LE(span.from_ms, span.to_ms);
    EXPECT_LE(before, span.from_ms);
    before = span.to_ms;
  }
  EXPECT_EQ(course.to_ms, kBegin + 200'000);
  EXPECT_TRUE(course_of({}, false, kBegin).spans.empty());
}

TEST(TimelineTest, StatesAttemptsSavesAndFailuresAreDrawn) {
  const auto events = two_attempts();
  const std::string picture = timeline(course_of(events, false, kBegin + 1'000'000));
  for (const char* part : {"class=\"deploy\"", "class=\"processing\"", "class=\"halted\"", "class=\"saved\"",
                           "class=\"broke\"", "<span class=\"number\" style=\"left:0.00%\">1</span>", ">HALTED</li>"})
    EXPECT_TRUE(has(picture, part)) << part << "\n" << picture;
  EXPECT_EQ(timeline(Course()), "");
}

TEST(TimelineTest, ManyAttemptsMakeASmallPictureThatShowsEachKindOfState) {
  std::vector<record::Event> events;
  for (int i = 0; i < 20'000; ++i) {
    events.push_back(event(10L * i, i + 1, JobState::kProcessing));
    events.push_back(saved(10L * i + 5, i + 1, i));
    if (i == 7'777) events.push_back(event(10L * i + 6, i + 1, JobState::kFailed, "once"));
  }
  const std::string picture = timeline(course_of(events, true, kBegin + 200'000'000));
  EXPECT_LT(picture.size(), 120'000U);
  EXPECT_TRUE(has(picture, "class=\"failed\""));
  EXPECT_TRUE(has(picture, "class=\"broke\""));
}

}  // namespace
}  // namespace dl::report
