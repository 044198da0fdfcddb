// SPDX-License-Identifier: Apache-2.0
// A job that Slurm puts back once more after its end runs nothing again.
#include "launcher/supervise/once_more.h"

#include <gtest/gtest.h>

namespace dl::supervise {
namespace {

using record::Event;
using record::JobState;

Event event(JobState state, int attempt, bool preempted = false, std::optional<int> once_more = {}) {
  Event event;
  event.time_ms = 1789000000000 + attempt;
  event.attempt = attempt;
  event.state = state;
  event.preempted = preempted;
  event.once_more = once_more;
  if (once_more) event.command = "python train.py";
  return event;
}

TEST(OnceMore, SlurmFrom2405To2511DoesSo) {
  EXPECT_FALSE(puts_back_once_more({22, 5, 8}));
  EXPECT_FALSE(puts_back_once_more({23, 11, 11}));
  EXPECT_TRUE(puts_back_once_more({24, 5, 0}));
  EXPECT_TRUE(puts_back_once_more({24, 11, 5}));
  EXPECT_TRUE(puts_back_once_more({25, 11, 7}));
  EXPECT_FALSE(puts_back_once_more({26, 5, 5}));
  EXPECT_FALSE(puts_back_once_more({}));  // unknown
}

TEST(OnceMore, AJobIsMarkedFromItsPreemptionUntilItWasPutBackOnceMore) {
  std::vector<Event> events = {event(JobState::kProcessing, 1)};
  EXPECT_FALSE(is_marked_preempted(events));
  events.push_back(event(JobState::kPending, 1, true));
  events.push_back(event(JobState::kProcessing, 2));
  EXPECT_TRUE(is_marked_preempted(events));
  events.push_back(event(JobState::kCompleted, 2, false, 2));
  EXPECT_FALSE(is_marked_preempted(events));
  // A person requeues the finished job, and it is preempted again; or it completes within the grace time.
  events.push_back(event(JobState::kPending, 3, true));
  EXPECT_TRUE(is_marked_preempted(events));
  events.push_back(event(JobState::kCompleted, 4, true, 5));
  EXPECT_FALSE(is_marked_preempted(events));
}

TEST(OnceMore, OnlyTheNextStartAndOnlyOfTheCommandThatEndedRunsNothing) {
  const std::string command = command_text({"python", "train.py"});
  std::vector<Event> events = {event(JobState::kPending, 1, true), event(JobState::kFailed, 2, false, 2)};
  events.back().exit = 3;
  const auto end = ended_before(events, command, 2);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit, 3);
  EXPECT_EQ(end->attempt, 2);
  EXPECT_FALSE(ended_before(events, command_text({"python", "other.py"}), 2));  // the script's next dlrun
  EXPECT_FALSE(ended_before(events, command, 1));                               // the same start, a second dlrun
  EXPECT_FALSE(ended_before(events, command, 3));                               // requeued by a person afterwards
  EXPECT_FALSE(ended_before({}, command, 0));
}

TEST(OnceMore, ItIsWrittenDownAndReadBack) {
  const Event end = event(JobState::kCompleted, 2, true, 2);
  const auto read = record::parse_event(record::format_event(end));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->preempted);
  EXPECT_EQ(read->once_more, 2);
  EXPECT_EQ(read->command, "python train.py");
  EXPECT_EQ(record::format_event(event(JobState::kCompleted, 2)).find("once"), std::string::npos);
  EXPECT_FALSE(record::parse_event(R"({"time_ms":1,"attempt":1,"state":"FAILED","preempted":1})"));
}

TEST(OnceMore, ACommandOfAnyLengthHasABoundedText) {
  const std::string text = command_text({"sh", "-c", std::string(100000, 'x') + "\n"});
  EXPECT_LE(text.size(), 1010U);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace dl::supervise
