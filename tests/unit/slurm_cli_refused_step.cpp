// SPDX-License-Identifier: Apache-2.0
// A step that Slurm refused is tried again, a few times and no more.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "launcher/slurm_cli/refused_step.h"

namespace dl::slurm_cli {
namespace {

TEST(RefusedStep, OnlySrunsOwnErrorIsARefusal) {
  EXPECT_TRUE(may_be_refused(1));
  for (const int status : {-1, 0, 2, 71, 126, 127, 137}) EXPECT_FALSE(may_be_refused(status)) << status;
}

// 1001, 1002 and 5004 are error numbers of Slurm that tell of a node that cannot be reached (slurm_errno.h).
TEST(RefusedStep, ANodeThatSrunDoesNotReachShowsAsASignal) {
  for (const int error : {1001, 1002, 5004}) EXPECT_TRUE(may_not_have_reached(128 + WTERMSIG(error))) << error;
  EXPECT_TRUE(may_not_have_reached(128 + SIGKILL)) << "of a task on another node";
  for (const int status : {-1, 0, 1, 2, 71, 126, 127, 128}) EXPECT_FALSE(may_not_have_reached(status)) << status;
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
