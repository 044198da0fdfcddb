// SPDX-License-Identifier: Apache-2.0
// Programs that move data: what is fed to them arrives whole, or they never see an end of it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/remote/helper.h"

namespace dl::data {
namespace {

class RemoteHelper : public ::testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);
    char name[] = "/tmp/dl-helper-XXXXXX";
    dir_ = ::mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  HelperRun shell(const std::string& script) const {
    HelperRun run;
    run.argv = {"/bin/sh", "-c", script, "sh", dir_};
    return run;
  }
  std::string dir_;
};

TEST_F(RemoteHelper, ReceivesAllThatItIsFedWhileItAnswers) {
  const std::string piece(300'000, 'x');
  int left = 40;
  size_t heard = 0;
  HelperRun run = shell("cat");
  run.next = [&]() -> Result<std::string_view> { return left-- > 0 ? std::string_view(piece) : std::string_view(); };
  run.out = [&](std::string_view data) {
    heard += data.size();
    return Status();
  };
  const auto end = run_helper(run);
  ASSERT_TRUE(end) << end.error().text;
  EXPECT_EQ(end->status, 0);
  EXPECT_EQ(heard, 40 * piece.size());
}

TEST_F(RemoteHelper, ThatIsNotFedToTheEndNeverSeesAnEnd) {
  int pieces = 2;
  HelperRun run = shell("cat >\"$1/part\"; echo whole >\"$1/whole\"");
  run.next = [&]() -> Result<std::string_view> {
    if (pieces-- > 0) return std::string_view("some bytes");
    return Error{Errc::kCorrupt, "the block is damaged"};
  };
  const auto end = run_helper(run);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::kCorrupt);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/whole"));
}

TEST_F(RemoteHelper, ThatEndsEarlyTellsByItsStatus) {
  const std::string piece(1 << 20, 'x');
  HelperRun run = shell("head -c 10 >/dev/null; exit 7");
  run.next = [&]() -> Result<std::string_view> { return std::string_view(piece); };
  const auto end = run_helper(run);
  ASSERT_TRUE(end) << end.error().text;
  EXPECT_EQ(end->status, 7);
}

TEST_F(RemoteHelper, ThatTakesNothingIsEnded) {
  const std::string piece(8 << 20, 'x');
  HelperRun run = shell("sleep 60");
  run.next = [&]() -> Result<std::string_view> { return std::string_view(piece); };
  run.stall_ms = 500;
  const auto end = run_helper(run);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::kTimeout);
}

}  // namespace
}  // namespace dl::data
