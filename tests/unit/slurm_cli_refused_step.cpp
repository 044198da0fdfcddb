// SPDX-License-Identifier: Apache-2.0
// A step that Slurm refused is tried again, a few times and no more.
#include <gtest/gtest.h>

#include "launcher/slurm_cli/refused_step.h"

namespace dl::slurm_cli {
namespace {

TEST(RefusedStep, OnlySrunsOwnErrorIsARefusal) {
  EXPECT_TRUE(may_be_refused(1));
  for (const int status : {-1, 0, 2, 71, 126, 127, 137}) EXPECT_FALSE(may_be_refused(status)) << status;
}

TEST(RefusedStep, PausesGrowAndEndWithinHalfAMinute) {
  std::chrono::seconds before{0}, sum{0};
  for (int refused = 1; refused <= max_tries_again(); ++refused) {
    const auto pause = pause_after_refusal(refused);
    ASSERT_TRUE(pause);
    EXPECT_GT(*pause, before);
    before = *pause;
    sum += *pause;
  }
  EXPECT_LE(sum, std::chrono::seconds(30));
  EXPECT_FALSE(pause_after_refusal(max_tries_again() + 1));
  EXPECT_FALSE(pause_after_refusal(0));
}

}  // namespace
}  // namespace dl::slurm_cli
