// SPDX-License-Identifier: Apache-2.0
// A libuv loop for tests of what works on dlrun's.
#pragma once

#include <gtest/gtest.h>
#include <uv.h>

namespace dl::supervise {

// At the end of a test the loop runs until nothing is left to do on it, and the test fails if a handle is still open
// then.
class LoopTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(uv_loop_init(&loop_), 0); }
  void TearDown() override {
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
  }
  uv_loop_t loop_{};
};

}  // namespace dl::supervise
