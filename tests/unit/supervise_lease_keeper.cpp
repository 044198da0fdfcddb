// SPDX-License-Identifier: Apache-2.0
// The lease on the checkpoint directory: renewed beside the loop, given back also in the middle of that.
#include "launcher/supervise/lease_keeper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace dl::supervise {
namespace {

class LeaseKeeperTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-lease-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    ASSERT_EQ(uv_loop_init(&loop_), 0);
  }
  void TearDown() override {
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    ASSERT_EQ(std::system(("rm -rf '" + dir_ + "'").c_str()), 0);
  }
  std::string dir_;
  uv_loop_t loop_{};
  int lost_ = 0;
};

TEST_F(LeaseKeeperTest, ItIsHeldAgainstOthersAndRenewed) {
  LeaseKeeper keeper(&loop_, [this] { ++lost_; }), other(&loop_, [] {});
  ASSERT_TRUE(keeper.acquire(dir_, "job 1", "", 1000));
  EXPECT_FALSE(keeper.token().empty());
  EXPECT_FALSE(other.acquire(dir_, "job 2", "", 1000));
  keeper.tick(15'999);
  EXPECT_TRUE(keeper.idle());
  keeper.tick(16'000);
  EXPECT_FALSE(keeper.idle());
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_TRUE(keeper.idle());
  EXPECT_EQ(lost_, 0);
  keeper.release();
}

TEST_F(LeaseKeeperTest, OneThatIsBeingRenewedIsGivenBackAfterThat) {
  LeaseKeeper keeper(&loop_, [this] { ++lost_; }), other(&loop_, [] {});
  ASSERT_TRUE(keeper.acquire(dir_, "job 1", "", 1000));
  keeper.tick(20'000);
  keeper.release();
  uv_run(&loop_, UV_RUN_DEFAULT);
  keeper.tick(60'000);
  EXPECT_TRUE(keeper.idle()) << "not renewed any more";
  EXPECT_TRUE(other.acquire(dir_, "job 2", "", 1000));
  EXPECT_EQ(lost_, 0);
}

TEST_F(LeaseKeeperTest, WithoutACheckpointDirectoryNothingIsKept) {
  LeaseKeeper keeper(&loop_, [this] { ++lost_; });
  keeper.tick(100'000);
  EXPECT_TRUE(keeper.idle());
  EXPECT_EQ(keeper.token(), "");
  keeper.release();
}

}  // namespace
}  // namespace dl::supervise
