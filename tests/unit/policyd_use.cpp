// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "slurm-plugin/policyd/use.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using policy::Charge;
using testing::kNow;

policy::ClusterState borrowing(int64_t now_s) {
  auto records = testing::cluster(1, 4);
  testing::add_running(&records, 1, testing::label("vision", 2, Charge::kBorrowed), "n1", {2});
  testing::add_running(&records, 2, testing::label("nlp", 2, Charge::kOwn), "n1", {2});
  auto state = observe::view_cluster(testing::site(), records, {}).state;
  state.now_s = now_s;
  state.half_life_s = 7 * 86400;
  return state;
}

TEST(RecentUseTest, CountsWhatIsBorrowedAndFromTheStartOfRunningJobs) {
  RecentUse use;
  auto state = borrowing(kNow);
  use.update(&state);
  EXPECT_NEAR(state.tenants[0].recent_gpu_s, 2000, 2);  // 2 GPUs for 1000 s
  EXPECT_EQ(state.tenants[1].recent_gpu_s, 0);
  state = borrowing(kNow + 100);
  use.update(&state);
  EXPECT_NEAR(state.tenants[0].recent_gpu_s, 2200, 3);
}

TEST(RecentUseTest, IsTheSameAfterARestartWithItsFile) {
  RecentUse use;
  auto state = borrowing(kNow);
  use.update(&state);
  RecentUse next;
  ASSERT_TRUE(next.parse(use.text()));
  state = borrowing(kNow + 50);
  next.update(&state);
  EXPECT_NEAR(state.tenants[0].recent_gpu_s, 2100, 3);
}

TEST(RecentUseTest, AClockThatGoesBackAddsNothing) {
  RecentUse use;
  auto state = borrowing(kNow);
  use.update(&state);
  const double before = state.tenants[0].recent_gpu_s;
  state = borrowing(kNow - 500);
  use.update(&state);
  EXPECT_DOUBLE_EQ(state.tenants[0].recent_gpu_s, before);
}

TEST(RecentUseTest, DamagedFilesAreRefused) {
  for (const char* text :
       {"", "{", "[]", "3", "{\"version\":2}", "{\"version\":\"1\",\"at_s\":1,\"borrowed_gpu_s\":{}}",
        "{\"version\":1.5,\"at_s\":1,\"borrowed_gpu_s\":{}}", "{\"version\":1e300,\"at_s\":1,\"borrowed_gpu_s\":{}}",
        "{\"version\":1,\"at_s\":1.5,\"borrowed_gpu_s\":{}}", "{\"version\":1,\"at_s\":1}",
        "{\"version\":1,\"at_s\":1,\"borrowed_gpu_s\":{\"a\":-1}}",
        "{\"version\":1,\"at_s\":1,\"borrowed_gpu_s\":{\"a\":\"x\"}}",
        "{\"version\":1,\"at_s\":1,\"borrowed_gpu_s\":[1]}", "\xff\xfe"})
    EXPECT_FALSE(RecentUse().parse(text)) << text;
}

}  // namespace
}  // namespace dl::policyd
