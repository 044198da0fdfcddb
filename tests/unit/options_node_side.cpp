// SPDX-License-Identifier: Apache-2.0
// A job on a node without spank_dl.so goes back into the queue, but not for ever.
#include "launcher/options/node_side.h"

#include <gtest/gtest.h>

namespace dl {
namespace {

TEST(NodeSide, a_job_is_put_back_twice_and_then_held) {
  bool hold = true;
  std::string reason = reason_without_node_side("n3", "12", times_without_node_side(""), &hold);
  EXPECT_FALSE(hold);
  EXPECT_EQ(reason,
            "spank_dl.so does not run on n3 (time 1 of 3), so that programs there would lack what --dl-* flags give "
            "them; an administrator finds out why by `dlctl doctor` there; the job waits, and is tried again in 2 "
            "minutes");
  reason = reason_without_node_side("n4", "12", times_without_node_side(reason), &hold);
  EXPECT_FALSE(hold);
  reason = reason_without_node_side("n3", "12", times_without_node_side(reason), &hold);
  EXPECT_TRUE(hold);
  EXPECT_NE(reason.find("(time 3 of 3)"), std::string::npos);
  EXPECT_EQ(times_without_node_side(reason), 0);  // once somebody resumes it
  EXPECT_NE(reason.find("the job is held now: when it is mended, dlctl resume 12"), std::string::npos);
}

TEST(NodeSide, other_reasons_do_not_count_and_a_bent_one_ends_the_tries) {
  EXPECT_EQ(times_without_node_side("node n3 was lost (time 2 of 3)"), 0);
  EXPECT_EQ(times_without_node_side("spank_dl.so does not run on n3"), 0);
  EXPECT_EQ(times_without_node_side("spank_dl.so does not run on n3 (time -7 of 3)"), 2);
  EXPECT_EQ(times_without_node_side("spank_dl.so does not run on n3 (time 9"), 2);
}

}  // namespace
}  // namespace dl
