// SPDX-License-Identifier: Apache-2.0
// What is left of an attempt is ended. How that is done on each node of a job is tried in tests/cluster.
#include "launcher/supervise/sweeper.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "common/contract/env_names.h"
#include "tests/unit/supervise_loop.h"

namespace dl::supervise {
namespace {

class SweeperTest : public LoopTest {
 protected:
  static plan::LaunchPlan plan(bool under_slurm) {
    plan::LaunchPlan plan;
    plan.under_slurm = under_slurm;
    plan.nodes.resize(1);
    plan.nodes[0].name = "n0";
    plan.learners.resize(1);
    return plan;
  }
  SlurmJob slurm_{&loop_, "", {}};
};

TEST_F(SweeperTest, WithoutSlurmTheProcessesWithTheRunIdAreKilledAtOnce) {
  const std::string run_id = "sweeper-" + std::to_string(::getpid());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string mark = std::string(env::kRunId) + "=" + run_id;
    const char* argv[] = {"sh", "-c", "echo; exec sleep 60", nullptr};
    const char* environment[] = {mark.c_str(), "PATH=/usr/bin:/bin", nullptr};
    ::dup2(ready[1], STDOUT_FILENO);
    ::execve("/bin/sh", const_cast<char**>(argv), const_cast<char**>(environment));
    ::_exit(127);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1) << "it runs with its own environment";
  ::close(ready[0]);
  ::close(ready[1]);
  const NodePool nodes(plan(/*under_slurm=*/false), NodePool::Without{});
  bool done = false;
  Sweeper(&slurm_, &nodes, "dl-agent").sweep(run_id, [&] { done = true; });
  EXPECT_TRUE(done);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST_F(SweeperTest, NoJobStepIsStartedWhileANodeIsLost) {
  NodePool nodes(plan(/*under_slurm=*/true), NodePool::Without{});
  nodes.lose(0);
  bool done = false;
  Sweeper(&slurm_, &nodes, "dl-agent").sweep("run", [&] { done = true; });
  EXPECT_TRUE(done);
  EXPECT_TRUE(slurm_.idle());
}

}  // namespace
}  // namespace dl::supervise
