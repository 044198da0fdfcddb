// SPDX-License-Identifier: Apache-2.0
// The files of a node's PMIx server go with its agent, however the agent ends. In the server's place is a program that
// ends at once: what it does is not the question.
#include "launcher/agent/pmix_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "common/contract/env_names.h"

namespace {

namespace fs = std::filesystem;
using dl::agent::PmixServer;

class PmixServerFiles : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(tmp_), nullptr);
    own_ = tmp_ + ("/dl-pmix-" + std::to_string(::getuid()));
    ::setenv("TMPDIR", tmp_, 1);
    ::setenv("SLURM_LOCALID", "0", 1);
    ::setenv(dl::env::kPmixServer, "/bin/true", 1);
  }
  void TearDown() override {
    for (const char* name : {"TMPDIR", "SLURM_LOCALID", dl::env::kPmixServer}) ::unsetenv(name);
    fs::remove_all(tmp_);
  }
  long folders() const { return fs::exists(own_) ? std::distance(fs::directory_iterator(own_), {}) : 0; }
  static void killed_agent() {
    const pid_t child = ::fork();
    if (child == 0) {
      PmixServer server;
      if (!server.start(0)) ::_exit(1);
      ::raise(SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  char tmp_[32] = "/tmp/dl-test-XXXXXX";
  std::string own_;
};

TEST_F(PmixServerFiles, GoWithTheAgent) {
  {
    PmixServer server;
    ASSERT_TRUE(server.start(0));
    EXPECT_EQ(folders(), 1);
  }
  EXPECT_FALSE(fs::exists(own_));
}

TEST_F(PmixServerFiles, AreNoneOfAnAgentWhoseServerIsNoRankOfTheLearners) {
  ::setenv(dl::env::kPmixRanks, "3", 1);
  for (const int rank : {2, 3}) {
    PmixServer server;
    ASSERT_TRUE(server.start(rank));
    EXPECT_EQ(folders(), rank == 2 ? 1 : 0);
  }
  ::unsetenv(dl::env::kPmixRanks);
}

TEST_F(PmixServerFiles, OfAKilledAgentGoWhenTheNextStartsAndThoseOfALivingOneStay) {
  killed_agent();
  ASSERT_EQ(folders(), 1);
  ASSERT_EQ(::mkdir((own_ + "/killed").c_str(), 0700), 0);  // before it had a lock
  PmixServer server;
  ASSERT_TRUE(server.start(0));
  EXPECT_EQ(folders(), 1);
  PmixServer::remove_left();
  EXPECT_EQ(folders(), 1);
}

TEST_F(PmixServerFiles, OfAKilledAgentGoWithTheSweep) {
  killed_agent();
  PmixServer::remove_left();
  EXPECT_FALSE(fs::exists(own_));
}

TEST_F(PmixServerFiles, AreNotLookedForWhereSomebodyElseMayHavePutThem) {
  ASSERT_EQ(::mkdir((tmp_ + std::string("/other")).c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((tmp_ + std::string("/other/x")).c_str(), 0700), 0);
  ASSERT_EQ(::symlink((tmp_ + std::string("/other")).c_str(), own_.c_str()), 0);
  PmixServer::remove_left();
  EXPECT_TRUE(fs::exists(tmp_ + std::string("/other/x")));
  PmixServer server;
  EXPECT_FALSE(server.start(0));
}

}  // namespace
