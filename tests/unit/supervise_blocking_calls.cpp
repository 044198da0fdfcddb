// SPDX-License-Identifier: Apache-2.0
// Calls beside the loop: in order, one at a time, and what of them a newer one replaces.
#include "launcher/supervise/blocking_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/supervise_loop.h"

namespace dl::supervise {
namespace {

class BlockingCallsTest : public LoopTest {
 protected:
  std::vector<std::string> done_;
};

TEST_F(BlockingCallsTest, AreMadeOneAfterAnotherOnAnotherThread) {
  BlockingCalls calls(&loop_);
  const std::thread::id own = std::this_thread::get_id();
  std::atomic<int> inside{0}, most{0}, elsewhere{0};
  std::vector<int> order;  // without a lock: ThreadSanitizer and the order would show two at a time
  for (int i = 0; i < 50; ++i)
    calls.post(
        [&, i] {
          const int now = ++inside;
          if (now > most) most = now;
          if (std::this_thread::get_id() != own) ++elsewhere;
          order.push_back(i);
          --inside;
        },
        [&, i] {
          EXPECT_EQ(std::this_thread::get_id(), own);
          done_.push_back(std::to_string(i));
        });
  EXPECT_FALSE(calls.idle());
  EXPECT_TRUE(done_.empty()) << "post() does not wait";
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_TRUE(calls.idle());
  EXPECT_EQ(most, 1);
  EXPECT_EQ(elsewhere, 50);
  ASSERT_EQ(order.size(), 50U);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(order[static_cast<size_t>(i)], i);
    EXPECT_EQ(done_[static_cast<size_t>(i)], std::to_string(i));
  }
}

TEST_F(BlockingCallsTest, OfWaitingOnesWithOneKeyOnlyTheNewestIsMade) {
  BlockingCalls calls(&loop_);
  std::promise<void> gate;
  std::vector<std::string> made;
  const auto post = [&](const std::string& what, const std::string& key) {
    calls.post([&made, what] { made.push_back(what); }, [this, what] { done_.push_back(what); }, key);
  };
  calls.post(
      [&, opened = gate.get_future().share()] {
        opened.wait();
        made.push_back("first");
      },
      [this] { done_.push_back("first"); }, "comment");
  post("comment 1", "comment");
  post("other", "other");
  post("plain 1", "");
  post("comment 2", "comment");
  post("plain 2", "");
  post("comment 3", "comment");
  gate.set_value();
  uv_run(&loop_, UV_RUN_DEFAULT);
  // The one that was being made is not replaced, and the newest takes the place of the first that waited.
  const std::vector<std::string> expected = {"first", "comment 3", "other", "plain 1", "plain 2"};
  EXPECT_EQ(made, expected);
  EXPECT_EQ(done_, expected) << "of those that were replaced, nothing is called";
}

TEST_F(BlockingCallsTest, WhatFollowsACallMayPostTheNext) {
  BlockingCalls calls(&loop_);
  int made = 0;
  calls.post([&] { ++made; },
             [&] {
               calls.post([&] { ++made; }, [this] { done_.emplace_back("second"); });
               EXPECT_FALSE(calls.idle());
             });
  calls.post([&] { ++made; }, nullptr);  // nothing need follow
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(made, 3);
  EXPECT_EQ(done_, std::vector<std::string>{"second"});
}

}  // namespace
}  // namespace dl::supervise
