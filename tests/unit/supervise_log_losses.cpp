// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/log_losses.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "launcher/supervise/own_output.h"

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

TEST(LogLossesTest, OwnOutputThatCannotBeWrittenIsSaidOnceAndAtTheEnd) {
  LogLosses losses;
  EXPECT_EQ(losses.add_output(""), "");
  EXPECT_EQ(losses.add_output("standard output: Disk quota exceeded"),
            "standard output: Disk quota exceeded; it goes on, and what is missing there is in the job directory");
  EXPECT_EQ(losses.add_output("standard output: Disk quota exceeded"), "");
  EXPECT_EQ(
      losses.summary(1),
      "standard output: Disk quota exceeded: what is missing there is in the job directory; 1 change is missing in "
      "events.jsonl");
}

// /dev/full stands for a full disk.
TEST(OwnOutputTest, OnlyWhatIsFullIsSaidToBe) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!full) GTEST_SKIP() << "no /dev/full";
  EXPECT_EQ(why_full(full.get(), "it"), "it: No space left on device");
  EXPECT_EQ(why_full(null.get(), "it"), "");
  EXPECT_EQ(why_full(-1, "it"), "");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(why_full(ends[1], "it"), "");
  ::close(ends[0]);
  ::close(ends[1]);
  const UniqueFd file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return;
  EXPECT_EQ(why_full(file.get(), "it"), "");
  struct stat status {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_size, 0) << "nothing is written";
}

}  // namespace
}  // namespace dl::supervise
