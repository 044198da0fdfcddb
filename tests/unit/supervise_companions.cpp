// SPDX-License-Identifier: Apache-2.0
// What dlrun keeps of companions where Slurm's commands are not there. What Slurm itself does with companions is tried
// with a real one, in tests/cluster/companion.bats.
#include "launcher/supervise/companions.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/supervise_loop.h"

namespace dl::supervise {
namespace {

class CompanionsTest : public LoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    if (const char* path = std::getenv("PATH")) path_ = path;
    ::setenv("PATH", "/nowhere", 1);
  }
  void TearDown() override {
    LoopTest::TearDown();
    ::setenv("PATH", path_.c_str(), 1);
  }
  int heard_ = 0;
  std::string path_;
};

TEST_F(CompanionsTest, OneThatCannotBeSubmittedIsToldAndNotKept) {
  Companions companions(&loop_, "7", "companion", [this](const std::string&, const CompanionState&) { ++heard_; });
  EXPECT_FALSE(companions.any());
  int told = 0;
  companions.submit(plan::LaunchPlan{}, 1, [&](const Result<std::string>& id) {
    ++told;
    EXPECT_FALSE(id);
    EXPECT_FALSE(id.error().text.empty());
  });
  EXPECT_TRUE(companions.any()) << "it is being submitted";
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(companions.any());
  EXPECT_TRUE(companions.idle());
}

TEST_F(CompanionsTest, WithoutCompanionsNobodyIsAskedAndNothingIsGivenBack) {
  Companions companions(&loop_, "7", "companion", [this](const std::string&, const CompanionState&) { ++heard_; });
  companions.look(1'000'000);
  companions.give_back_all();
  EXPECT_TRUE(companions.idle()) << "no command was started";
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(heard_, 0);
}

}  // namespace
}  // namespace dl::supervise
