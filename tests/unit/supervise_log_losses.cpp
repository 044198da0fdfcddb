// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/log_losses.h"

#include <gtest/gtest.h>

namespace dl::supervise {
namespace {

using namespace protocol;

TEST(LogLossesTest, ACompleteRunSaysNothing) {
  LogLosses losses;
  EXPECT_EQ(losses.add(1, 0, LogLost{}), "");
  EXPECT_EQ(losses.note(1, 0), "");
  EXPECT_EQ(losses.summary(0), "");
}

TEST(LogLossesTest, EachLogIsNamedOnceAndAllTogetherAtTheEnd) {
  LogLosses losses;
  const LogLost lost{1000, "write /job/log: No space left on device"};
  EXPECT_EQ(losses.add(1, 3, lost),
            "learner 3: write /job/log: No space left on device; it goes on, but its log lacks what it writes from now "
            "on, until there is room again");
  EXPECT_EQ(losses.add(1, 3, {2048, lost.error}), "");
  EXPECT_EQ(losses.summary(0),
            "1 log is incomplete: 2.00 KiB of output could not be written (write /job/log: No space left on device)");
  EXPECT_NE(losses.add(2, 3, lost), "");
  EXPECT_EQ(losses.note(2, 3), "its log is incomplete: write /job/log: No space left on device");
  EXPECT_EQ(losses.note(2, 0), "");
  EXPECT_EQ(losses.summary(2).substr(0, 21), "2 logs are incomplete");
}

TEST(LogLossesTest, ChangesThatAreMissingInTheHistoryAreCounted) {
  EXPECT_EQ(LogLosses().summary(1), "1 change is missing in events.jsonl");
  EXPECT_EQ(LogLosses().summary(2), "2 changes are missing in events.jsonl");
}

}  // namespace
}  // namespace dl::supervise
