// SPDX-License-Identifier: Apache-2.0
// How long a store of results may take at an end, and how one ends. In dl-data's place are scripts.
#include "launcher/supervise/result_store.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/json/json.h"
#include "tests/unit/supervise_loop.h"

namespace dl::supervise {
namespace {

constexpr int64_t kNow = 1'000'000;

RunState stopped_by(StopCause cause, std::optional<int64_t> deadline_ms = {}) {
  RunState state;
  state.stop.emplace();
  state.stop->cause = cause;
  state.stop->deadline_ms = deadline_ms;
  return state;
}

TEST(StoreLimit, follows_from_the_end_and_its_deadline) {
  const RunState over;  // all learners finished, or failed
  EXPECT_EQ(store_limit_ms(over, {}, kNow), std::nullopt);
  EXPECT_EQ(store_limit_ms(over, kNow + 60'000, kNow), 60'000 - kAfterStoreMs) << "the time limit";
  EXPECT_EQ(store_limit_ms(over, kNow + 5'000, kNow), 0) << "too little to begin";
  EXPECT_EQ(store_limit_ms(over, kNow - 3'000, kNow), 0);
  EXPECT_EQ(store_limit_ms(stopped_by(StopCause::kPreemption, kNow + 30'000), kNow + 60'000, kNow),
            30'000 - kAfterStoreMs);
  EXPECT_EQ(store_limit_ms(stopped_by(StopCause::kPause), {}, kNow), std::nullopt);
  EXPECT_EQ(store_limit_ms(stopped_by(StopCause::kYield), kNow + 60'000, kNow), 0) << "others want the GPUs";
  EXPECT_EQ(store_limit_ms(stopped_by(StopCause::kYield, kNow + 30'000), {}, kNow), 30'000 - kAfterStoreMs);
  RunState cancelled = stopped_by(StopCause::kCancelled);
  EXPECT_EQ(store_limit_ms(cancelled, {}, kNow), 0);
  cancelled.stop->slurm_ends_ms = kNow - 5'000;
  cancelled.rules.kill_wait_s = 30;
  EXPECT_EQ(store_limit_ms(cancelled, {}, kNow), 25'000 - kAfterStoreMs) << "until Slurm kills";
  RunState killed;
  killed.decided.by_slurm = true;
  EXPECT_EQ(store_limit_ms(killed, {}, kNow), 0);
}

TEST(StoreLimit, a_store_under_way_keeps_the_deadline_that_a_signal_brings) {
  NoticeReading reading;
  EXPECT_EQ(hurry_ms(reading, kNow), std::nullopt) << "a save is asked for";
  reading.kind = NoticeReading::Kind::kStop;
  reading.cause = StopCause::kPreemption;
  reading.deadline_ms = kNow + 30'000;
  EXPECT_EQ(hurry_ms(reading, kNow), 30'000 - kAfterStoreMs);
  reading.deadline_ms = kNow + 1'000;
  EXPECT_EQ(hurry_ms(reading, kNow), 0) << "at once";
}

class ResultStoreTest : public LoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    ASSERT_NE(::mkdtemp(folder_), nullptr);
    plan_.data_program = std::string(folder_) + "/dl-data";
    plan_.results.emplace();
    plan_.results->to = "/out/7";
  }
  void TearDown() override {
    LoopTest::TearDown();
    std::filesystem::remove_all(folder_);
  }
  StoreOutcome stored(const std::string& script, std::optional<int64_t> limit_ms = {}) {
    std::ofstream(plan_.data_program) << "#!/bin/sh\n" << script;
    ::chmod(plan_.data_program.c_str(), 0755);
    ResultStore store(&loop_, 1);
    StoreOutcome outcome;
    bool over = false;
    store.start(plan_, record::JobDir(folder_), limit_ms, [&](const StoreOutcome& its) {
      outcome = its;
      over = true;
    });
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_TRUE(over);
    EXPECT_FALSE(store.under_way());
    return outcome;
  }
  char folder_[32] = "/tmp/dl-store-XXXXXX";
  plan::LaunchPlan plan_;
};

TEST_F(ResultStoreTest, names_the_folders_and_the_place) {
  const StoreOutcome outcome = stored("echo \"$*\" >" + std::string(folder_) + "/words; exit 0");
  EXPECT_TRUE(outcome.done) << outcome.text;
  std::ifstream file(std::string(folder_) + "/words");
  const std::string words{std::istreambuf_iterator<char>(file), {}};
  const std::string dir = folder_;
  EXPECT_EQ(words, "store --from " + dir + "/results=results --from " + dir + "/logs=logs --from " + dir +
                       "/metrics=metrics --to /out/7 --progress " + dir + "/data/store.json\n");
}

TEST_F(ResultStoreTest, says_in_one_sentence_why_it_is_not_done) {
  StoreOutcome outcome = stored("echo 'first'; echo 'the place is full' >&2; exit 65");
  EXPECT_FALSE(outcome.done);
  EXPECT_EQ(outcome.text, "the place is full");
  EXPECT_EQ(stored("exit 73").text, "the time did not suffice");
  EXPECT_EQ(stored("exit 70").text, "dl-data ended with status 70");
  const Json json = Json::parse(stored_text(plan_, outcome, 3, kNow));
  EXPECT_EQ(json.value("done", true), false);
  EXPECT_EQ(json.value("attempt", 0), 3);
  EXPECT_EQ(json.value("to", std::string()), "/out/7");
  EXPECT_EQ(json.value("reason", std::string()), "the place is full");
}

TEST_F(ResultStoreTest, is_ended_where_it_does_not_keep_its_deadline) {
  const StoreOutcome outcome = stored("exec sleep 600", 100);
  EXPECT_FALSE(outcome.done);
  EXPECT_EQ(outcome.text, "the time did not suffice");
}

TEST_F(ResultStoreTest, without_a_program_is_not_done) {
  ResultStore store(&loop_, 1);
  std::string text;
  store.start(plan_, record::JobDir(folder_), {}, [&](const StoreOutcome& its) { text = its.text; });
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_NE(text.find("No such file or directory"), std::string::npos) << text;
}

}  // namespace
}  // namespace dl::supervise
