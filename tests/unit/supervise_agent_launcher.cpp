// SPDX-License-Identifier: Apache-2.0
// What starts agents, with real processes: what they are given, which of them are reaped, and which are killed.
#include "launcher/supervise/agent_launcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "common/base/atomic_file.h"
#include "common/base/unique_fd.h"
#include "common/contract/env_names.h"
#include "common/process/child_process.h"

namespace dl::supervise {
namespace {

class AgentLauncherTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-launcher-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    ::setenv("DL_TEST_KEPT", "kept", 1);
    ::setenv("DL_TEST_SCRUBBED", "scrubbed", 1);
  }
  void TearDown() override {
    launcher_.kill_all(SIGKILL);
    for (int i = 0; launcher_.any_running() && i < 4; ++i) reap_next();
    std::filesystem::remove_all(dir_);
  }
  // As many agents as a plan without Slurm starts, each this shell script.
  void direct(int learners, const std::string& script) {
    plan_.method = plan::LaunchMethod::kDirect;
    plan_.learners.resize(static_cast<size_t>(learners));
    plan_.argv = {"sh", "-c", "cd " + dir_ + " && " + script};
  }
  // Waits until one that was started last has ended, or all have.
  std::vector<AgentLauncher::Ended> reap_next() {
    for (int i = 0; i < 4000; ++i, ::usleep(5000)) {
      auto ended = launcher_.reap();
      if (!ended.empty() || !launcher_.any_running()) return ended;
    }
    ADD_FAILURE() << "none has ended for 20 s";
    return {};
  }
  std::string text(const std::string& file) const {
    auto found = read_small_file(dir_ + "/" + file, 1 << 20);
    return found ? *found : "(no " + file + ")";
  }
  // The variable in the output of env.
  std::string variable(const std::string& file, const std::string& name) const {
    const std::string all = "\n" + text(file);
    const size_t at = all.find("\n" + name + "=");
    if (at == std::string::npos) return "(unset)";
    const size_t from = at + name.size() + 2;
    return all.substr(from, all.find('\n', from) - from);
  }

  std::string dir_;
  plan::LaunchPlan plan_;
  AgentLauncher launcher_{plan_};
};

TEST_F(AgentLauncherTest, WithoutSlurmEachAgentIsGivenItsRankAndTheWayToDlrun) {
  direct(3, "env >$DL_CONTROL_RANK");
  plan_.ports = 2;
  plan_.scrub = {"DL_TEST_SCRUBBED"};
  ASSERT_TRUE(launcher_.start("127.0.0.1:7", "its secret"));
  EXPECT_TRUE(launcher_.running());
  size_t ended = 0;
  while (launcher_.running())
    for (const AgentLauncher::Ended& one : reap_next()) {
      ++ended;
      EXPECT_EQ(one.wait_status, 0);
    }
  EXPECT_EQ(ended, 3U);
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_EQ(variable(rank, env::kControl), "127.0.0.1:7");
    EXPECT_EQ(variable(rank, env::kSecret), "its secret");
    EXPECT_EQ(variable(rank, env::kHoldPorts), "2");
    EXPECT_EQ(variable(rank, env::kMayRequeue), "(unset)") << "there is no queue";
    EXPECT_EQ(variable(rank, "DL_TEST_KEPT"), "kept");
    EXPECT_EQ(variable(rank, "DL_TEST_SCRUBBED"), "(unset)");
  }
}

TEST_F(AgentLauncherTest, TheProgramThatStartsAllIsToldWhichVariableHoldsTheRank) {
  direct(2, "env >all; cat hosts >copy");
  plan_.method = plan::LaunchMethod::kSrun;
  plan_.under_slurm = true;
  plan_.checkpoint.emplace();
  plan_.hostfile_path = dir_ + "/hosts";
  plan_.hostfile_text = "n1\nn2\n";
  ::unsetenv("SLURM_PMIX_FENCE");
  ASSERT_TRUE(launcher_.start("n1:7", "secret"));
  ASSERT_EQ(reap_next().size(), 1U) << "one process for both learners";
  EXPECT_EQ(variable("all", env::kControlRank), "SLURM_PROCID");
  EXPECT_EQ(variable("all", env::kMayRequeue), "1");
  EXPECT_EQ(variable("all", "SLURM_PMIX_FENCE"), "tree");
  EXPECT_EQ(text("copy"), "n1\nn2\n") << "the file of hosts is there before the program";
  ::setenv("SLURM_PMIX_FENCE", "ring", 1);
  plan_.method = plan::LaunchMethod::kMpirun;
  ASSERT_TRUE(launcher_.start("n1:7", "secret"));
  reap_next();
  EXPECT_EQ(variable("all", env::kControlRank), "OMPI_COMM_WORLD_RANK");
  plan_.method = plan::LaunchMethod::kSrun;
  ASSERT_TRUE(launcher_.start("n1:7", "secret"));
  reap_next();
  EXPECT_EQ(variable("all", "SLURM_PMIX_FENCE"), "ring") << "the user's own";
  ::unsetenv("SLURM_PMIX_FENCE");
}

TEST_F(AgentLauncherTest, OnlyThoseOfTheNewestStartAreToldOf) {
  direct(1, "exec sleep 60");
  ASSERT_TRUE(launcher_.start("h:1", "s"));
  plan_.argv.back() = "exit 7";
  ASSERT_TRUE(launcher_.start("h:1", "s"));
  const auto ended = reap_next();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(WEXITSTATUS(ended[0].wait_status), 7);
  EXPECT_FALSE(launcher_.running());
  EXPECT_TRUE(launcher_.any_running()) << "the older one";
  launcher_.kill_older(SIGTERM);
  EXPECT_TRUE(reap_next().empty());
  EXPECT_FALSE(launcher_.any_running());
}

TEST_F(AgentLauncherTest, EachAllocationHasAnSrunOfItsOwnWhichIsToldItsRanksAndItsNodes) {
  direct(3, "env >own");
  plan_.method = plan::LaunchMethod::kSrun;
  plan_.under_slurm = true;
  plan_.checkpoint.emplace();
  plan_.own_ranks = "0,2";
  plan_.companion_steps = {
      {"13", "n[3-4]", {"sh", "-c", "cd " + dir_ + " && env >other; cat hosts >copy"}, dir_ + "/hosts", "n3\n", "1"}};
  ::setenv("SLURM_JOB_NODELIST", "n1", 1);
  ASSERT_TRUE(launcher_.start("n1:7", "secret"));
  while (launcher_.running()) reap_next();
  ::unsetenv("SLURM_JOB_NODELIST");
  EXPECT_EQ(variable("own", "SLURM_JOB_NODELIST"), "n1");
  EXPECT_EQ(variable("other", "SLURM_JOB_NODELIST"), "n[3-4]") << "srun believes it, and starts no step on more nodes";
  EXPECT_EQ(variable("own", env::kControlRanks), "0,2");
  EXPECT_EQ(variable("own", env::kMayRequeue), "1");
  EXPECT_EQ(variable("own", env::kControlStart), "(unset)");
  EXPECT_EQ(variable("other", env::kControlRanks), "1");
  EXPECT_EQ(variable("other", env::kControlRank), "SLURM_PROCID");
  EXPECT_EQ(variable("other", env::kMayRequeue), env::kNeverRequeue) << "there, SLURM_JOB_ID is another job";
  EXPECT_EQ(text("copy"), "n3\n");
}

TEST_F(AgentLauncherTest, AgentsOfTheNextAttemptAreStartedBesideThoseOfThisOne) {
  direct(1, "exec sleep 60");
  ASSERT_TRUE(launcher_.start("h:1", "s"));
  plan::LaunchPlan next = plan_;
  next.argv.back() = "cd " + dir_ + " && env >first; exec sleep 60";
  ASSERT_TRUE(launcher_.start_early(next, "h:2", "s"));
  EXPECT_TRUE(launcher_.early_run());
  EXPECT_EQ(launcher_.number(), 0);
  EXPECT_EQ(launcher_.early_number(), 1);
  launcher_.drop_early();
  EXPECT_FALSE(launcher_.early_run());
  ASSERT_TRUE(launcher_.start_early(next, "h:2", "s"));
  EXPECT_EQ(launcher_.early_number(), 2) << "what was dropped is not taken for these";
  launcher_.adopt();
  EXPECT_EQ(launcher_.number(), 2);
  EXPECT_FALSE(launcher_.early_run());
  EXPECT_TRUE(launcher_.running());
  next.argv.back() = "exit 3";
  ASSERT_TRUE(launcher_.start_early(next, "h:2", "s"));
  for (int i = 0; launcher_.early_run() && i < 4000; ++i, ::usleep(5000)) launcher_.reap();
  EXPECT_FALSE(launcher_.early_run());
}

TEST_F(AgentLauncherTest, KillsAllProcessesOfAnAgentAndLeavesOtherChildrenAlone) {
  SpawnOptions options;
  options.argv = {"sleep", "60"};
  const auto other = spawn_process(options);
  ASSERT_TRUE(other) << other.error().text;
  // The agent's own child holds the pipe until it ends.
  ASSERT_EQ(::mkfifo((dir_ + "/held").c_str(), 0600), 0);
  direct(1, "(echo up; exec sleep 60) >held & wait");
  ASSERT_TRUE(launcher_.start("h:1", "s"));
  const UniqueFd held(::open((dir_ + "/held").c_str(), O_RDONLY | O_CLOEXEC));
  char word[3];
  ASSERT_EQ(::read(held.get(), word, sizeof word), 3);
  launcher_.kill_older(SIGKILL);
  EXPECT_TRUE(launcher_.reap().empty()) << "it is no older one";
  launcher_.kill_all(SIGKILL);
  const auto ended = reap_next();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(WTERMSIG(ended[0].wait_status), SIGKILL);
  pollfd end{held.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&end, 1, 10'000), 1) << "the agent's child lives on";
  EXPECT_EQ(::read(held.get(), word, sizeof word), 0);
  EXPECT_EQ(::waitpid(*other, nullptr, WNOHANG), 0);
  ::kill(*other, SIGKILL);
  EXPECT_EQ(::waitpid(*other, nullptr, 0), *other);
}

TEST_F(AgentLauncherTest, LearnerZeroAloneReadsTheStandardInputOfDlrun) {
  ASSERT_TRUE(replace_file(dir_ + "/input", "typed\n"));
  const int kept = ::dup(STDIN_FILENO), input = ::open((dir_ + "/input").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(input, 0);
  ::dup2(input, STDIN_FILENO);
  direct(2, "cat >read-$DL_CONTROL_RANK");
  plan_.reads_stdin = true;
  const Status started = launcher_.start("h:1", "s");
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
  ::close(input);
  ASSERT_TRUE(started);
  while (launcher_.running()) reap_next();
  EXPECT_EQ(text("read-0"), "typed\n");
  EXPECT_EQ(text("read-1"), "");
}

TEST_F(AgentLauncherTest, AProgramThatIsNotThereIsAnError) {
  direct(1, "");
  plan_.argv = {dir_ + "/none"};
  const Status started = launcher_.start("h:1", "s");
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kNotFound);
  EXPECT_FALSE(launcher_.any_running());
}

}  // namespace
}  // namespace dl::supervise
