// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/rendezvous.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "rendezvous_support.h"

namespace dl::supervise {
namespace {

class RendezvousTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("DL_CHECK_CONNECTIONS", "0", 1);
    uv_loop_init(&loop_);
    rendezvous_ = std::make_unique<Rendezvous>(&loop_, [](int64_t, const rendezvous::Connection&) { return 0; });
    ASSERT_TRUE(rendezvous_->open_store("127.0.0.1:1", &facts_));
  }
  void TearDown() override {
    rendezvous_->close_handle();
    uv_run(&loop_, UV_RUN_DEFAULT);
    rendezvous_.reset();
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    ::unsetenv("DL_CHECK_CONNECTIONS");
  }
  void connect() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(facts_.store_port));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    ASSERT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    // An answer shows that it has been seen.
    using rendezvous::test::type;
    const std::string asked = rendezvous::test::validate() + type(rendezvous::Op::kNumKeys);
    ASSERT_EQ(::send(fd, asked.data(), asked.size(), MSG_NOSIGNAL), static_cast<ssize_t>(asked.size()));
    char answer[8];
    EXPECT_EQ(::recv(fd, answer, sizeof answer, MSG_WAITALL), 8);
    ::close(fd);
  }

  uv_loop_t loop_{};
  std::unique_ptr<Rendezvous> rendezvous_;
  plan::RunFacts facts_;
};

TEST_F(RendezvousTest, TellsOnceOfAStoreThatNobodyComesTo) {
  EXPECT_EQ(rendezvous_->look(0), "");
  EXPECT_EQ(rendezvous_->look(59'999), "");
  const std::string told = rendezvous_->look(60'000);
  EXPECT_NE(told.find("127.0.0.1:" + std::to_string(facts_.store_port)), std::string::npos) << told;
  EXPECT_NE(told.find("MASTER_PORT"), std::string::npos) << told;
  EXPECT_EQ(rendezvous_->look(70'000), "");
  rendezvous_->close();
  EXPECT_EQ(rendezvous_->look(70'000), "") << "there is none any more";
  ASSERT_TRUE(rendezvous_->open_store("127.0.0.1:1", &facts_));
  EXPECT_NE(rendezvous_->look(70'000), "") << "that of the next attempt";
}

TEST_F(RendezvousTest, HasNothingToTellOnceALearnerHasCome) {
  connect();
  EXPECT_EQ(rendezvous_->look(1'000'000), "");
}

}  // namespace
}  // namespace dl::supervise
