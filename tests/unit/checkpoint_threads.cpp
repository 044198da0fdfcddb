// SPDX-License-Identifier: Apache-2.0
// One context, and one reader, that two threads use at once, which dlckpt.h does not allow: a call beside another one
// is refused, and ends nothing. Run under ThreadSanitizer, too.
#include <atomic>
#include <chrono>
#include <thread>

#include "checkpoint/include/dlckpt_read.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr const char* kSentence = "another thread is in a call on this object";

// Calls `mine` in this thread and `other` in a second one, again and again until each has been refused beside the other
// (each returns whether it was) or a minute is over.
void beside(const std::function<bool()>& mine, const std::function<bool()>& other) {
  std::atomic<bool> done{false}, other_refused{false};
  std::thread second([&] {
    while (!done) other_refused = other() || other_refused;
  });
  bool refused = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((!refused || !other_refused) && std::chrono::steady_clock::now() < end) refused = mine() || refused;
  done = true;
  second.join();
  EXPECT_TRUE(refused && other_refused) << "no call met another one in a minute";
}

const char* message_of(const dlckpt_ctx* ctx) {
  return dlckpt_errmsg(ctx);
}
const char* message_of(const dlckpt_reader* reader) {
  return dlckpt_reader_errmsg(reader);
}

// Whether the call was refused because of the other thread. Any other error fails the test.
template <typename Object>
bool refused(dlckpt_error rc, const Object* object) {
  if (rc == DLCKPT_OK) return false;
  EXPECT_EQ(rc, DLCKPT_E_INVALID) << message_of(object);
  EXPECT_NE(std::string(message_of(object)).find(kSentence), std::string::npos) << message_of(object);
  return true;
}

TEST(CheckpointThreads, ACallBesideAnotherOneOnAContextIsRefusedAndTheContextGoesOn) {
  const TempDir dir;
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.path().c_str();
  options.world_size = 1;
  dlckpt_ctx* ctx = nullptr;
  ASSERT_EQ(dlckpt_open(&options, &ctx), DLCKPT_OK) << dlckpt_open_error();
  std::vector<float> values(100000, 2.5F);
  const int64_t shape = 100000, one = 1;
  ASSERT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, &shape, nullptr, nullptr, values.data(), 0), DLCKPT_OK);
  int64_t step = 0;
  float more = 1;
  beside([&] { return refused(dlckpt_save_flags(ctx, ++step, DLCKPT_SYNC), ctx); },
         [&] {
           bool met = refused(dlckpt_tensor(ctx, "v", DLCKPT_F32, 1, &one, nullptr, nullptr, &more, 0), ctx);
           met = refused(dlckpt_blob(ctx, "blob", "abc", 3, 0), ctx) || met;
           met = refused(dlckpt_metric(ctx, "loss", 1), ctx) || met;
           met = refused(dlckpt_before_mutation(ctx), ctx) || met;
           dlckpt_save_stats stats{};
           stats.struct_size = sizeof stats;
           met = refused(dlckpt_stats(ctx, &stats), ctx) || met;
           met = refused(dlckpt_wait(ctx, 0, nullptr), ctx) || met;
           EXPECT_EQ(dlckpt_want(ctx, 1), 0);
           dlckpt_latest(ctx);
           dlckpt_exit_code(ctx);
           return met;
         });
  ASSERT_EQ(dlckpt_save_flags(ctx, 2000000, DLCKPT_SYNC), DLCKPT_OK) << dlckpt_errmsg(ctx);
  EXPECT_STREQ(dlckpt_errmsg(ctx), "");
  EXPECT_EQ(dlckpt_latest(ctx), 2000000);
  dlckpt_close(ctx);
  EXPECT_STREQ(dlckpt_close_error(), "");
}

TEST(CheckpointThreads, AContextInWhichAnotherThreadWaitsIsNotClosed) {
  const TempDir dir;
  // Two ranks, of which one never comes: the save waits for it.
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.path().c_str();
  options.world_size = 2;
  options.run_id = "test";
  options.timeout_s = 3;
  dlckpt_ctx* ctx = nullptr;
  ASSERT_EQ(dlckpt_open(&options, &ctx), DLCKPT_OK) << dlckpt_open_error();
  float value = 1;
  const int64_t one = 1;
  ASSERT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, &one, nullptr, nullptr, &value, DLCKPT_REPLICATED), DLCKPT_OK);
  std::atomic<bool> waits{false};
  dlckpt_error outcome = DLCKPT_OK;
  std::thread second([&] {
    waits = true;
    do {
      outcome = dlckpt_save_flags(ctx, 1, DLCKPT_SYNC);
    } while (outcome == DLCKPT_E_INVALID);  // it met dlckpt_forget() below
  });
  while (!waits) std::this_thread::yield();
  while (dlckpt_forget(ctx, "none") != DLCKPT_E_INVALID) std::this_thread::yield();
  dlckpt_close(ctx);
  EXPECT_NE(std::string(dlckpt_close_error()).find(kSentence), std::string::npos) << dlckpt_close_error();
  second.join();
  EXPECT_EQ(outcome, DLCKPT_E_TIMEOUT) << dlckpt_errmsg(ctx);
  dlckpt_close(ctx);
  EXPECT_STREQ(dlckpt_close_error(), "");
}

TEST(CheckpointThreads, ACallBesideAnotherOneOnAReaderIsRefused) {
  const TempDir dir;
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.path().c_str();
  options.world_size = 1;
  dlckpt_ctx* ctx = nullptr;
  ASSERT_EQ(dlckpt_open(&options, &ctx), DLCKPT_OK) << dlckpt_open_error();
  std::vector<float> values(100000, 2.5F);
  const int64_t shape = 100000;
  ASSERT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, &shape, nullptr, nullptr, values.data(), 0), DLCKPT_OK);
  ASSERT_EQ(dlckpt_blob(ctx, "blob", "abc", 3, 0), DLCKPT_OK);
  ASSERT_EQ(dlckpt_save_flags(ctx, 1, DLCKPT_SYNC), DLCKPT_OK) << dlckpt_errmsg(ctx);
  dlckpt_close(ctx);
  dlckpt_reader* reader = nullptr;
  ASSERT_EQ(dlckpt_reader_open(dir.path().c_str(), DLCKPT_LATEST, &reader), DLCKPT_OK) << dlckpt_open_error();
  const auto load = [reader](std::vector<float>* into) {
    return refused(dlckpt_reader_load(reader, "w", nullptr, nullptr, into->data(), into->size() * sizeof(float)),
                   reader);
  };
  std::vector<float> mine(100000), other(100000);
  beside([&] { return load(&mine); },
         [&] {
           const void* data = nullptr;
           size_t size = 0;
           const bool met = refused(dlckpt_reader_blob(reader, "blob", -1, &data, &size), reader);
           const size_t count = dlckpt_reader_count(reader);
           EXPECT_TRUE(count == 0 || count == 1);
           return load(&other) || met;
         });
  ASSERT_FALSE(load(&mine));
  EXPECT_EQ(mine, values);
  dlckpt_reader_close(reader);
}

}  // namespace
}  // namespace dl::ckpt::test
