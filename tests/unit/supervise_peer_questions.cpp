// SPDX-License-Identifier: Apache-2.0
// Whose is a connection: questions of the servers' threads, answers of agents.
#include "launcher/supervise/peer_questions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace dl::supervise {
namespace {

class PeerQuestionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    uv_loop_init(&loop);
    // As dlrun's does: a loop with nothing else to wait for does not run.
    uv_timer_init(&loop, &timer);
    uv_timer_start(
        &timer, [](uv_timer_t*) {}, 1000000, 0);
    questions = std::make_unique<PeerQuestions>(
        &loop, 1000,
        [this](int64_t query, const rendezvous::Connection& connection) {
          asked = query;
          port = connection.client_port;
          return nodes;
        },
        [this](const std::string& text) { told = text; });
    questions->open();
  }
  void TearDown() override {
    questions->close();
    uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
    uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop), 0);
  }
  // From another thread, as a server asks; then the loop takes it.
  void ask() {
    verdict = -1;
    std::thread([this] {
      questions->check()({"10.0.0.2", 40000, 8080}, [this](bool yes) { verdict = yes ? 1 : 0; });
    }).join();
    uv_run(&loop, UV_RUN_NOWAIT);
  }

  uv_loop_t loop{};
  uv_timer_t timer{};
  std::unique_ptr<PeerQuestions> questions;
  int nodes = 2, port = 0;
  int64_t asked = 0;
  std::string told;
  std::atomic<int> verdict{-1};
};

TEST_F(PeerQuestionsTest, TheJobsUserAndRootAreServedOthersAreNot) {
  ask();
  EXPECT_EQ(port, 40000);
  EXPECT_EQ(verdict, -1) << "nobody has answered";
  questions->answered(asked, -1);
  EXPECT_EQ(verdict, -1) << "the other node may know";
  questions->answered(asked, 1000);
  EXPECT_EQ(verdict, 1);
  ask();
  questions->answered(asked, 0);
  EXPECT_EQ(verdict, 1);
  EXPECT_EQ(told, "");
  ask();
  questions->answered(asked, 1001);
  EXPECT_EQ(verdict, 0);
  EXPECT_EQ(told, "a connection from 10.0.0.2 port 40000 to the rendezvous was refused: it is user 1001's");
  questions->answered(asked, 1000);  // too late, and no harm
  EXPECT_EQ(verdict, 0);
}

TEST_F(PeerQuestionsTest, AConnectionThatNoNodeKnowsIsRefused) {
  ask();
  questions->answered(asked, -1);
  questions->answered(asked, -1);
  EXPECT_EQ(verdict, 0);
  nodes = 0;
  ask();
  EXPECT_EQ(verdict, 0);
  EXPECT_NE(told.find("no node of the job is left to ask"), std::string::npos);
}

TEST_F(PeerQuestionsTest, NoAnswerInTimeIsARefusal) {
  ask();
  const auto now = static_cast<int64_t>(uv_hrtime() / 1000000);
  questions->tick(now + 25000);
  EXPECT_EQ(verdict, -1);
  questions->tick(now + 31000);
  EXPECT_EQ(verdict, 0);
}

TEST_F(PeerQuestionsTest, NobodyWaitsBeyondTheEnd) {
  ask();
  std::atomic<int> second{-1};
  std::thread([&] { questions->check()({"10.0.0.2", 1, 1}, [&](bool yes) { second = yes ? 1 : 0; }); }).join();
  questions->shut();
  EXPECT_EQ(verdict, 0);
  EXPECT_EQ(second, 0) << "not even taken by the loop";
  ask();
  EXPECT_EQ(verdict, 0) << "asked when it was shut";
}

}  // namespace
}  // namespace dl::supervise
