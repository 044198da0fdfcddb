// SPDX-License-Identifier: Apache-2.0
// What an agent does to leave nothing behind, on real processes.
#include "common/process/descendants.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>

#include "common/base/atomic_file.h"
#include "common/process/child_process.h"
#include "launcher/agent/log_tee.h"

namespace dl::agent {
namespace {

// A shell that detaches a process with setsid, and one that stays; then it waits, or leaves at once.
pid_t start_family(bool leave) {
  SpawnOptions options;
  options.argv = {"sh", "-c", std::string("setsid sleep 1000 & sleep 1000 & ") + (leave ? "exit 0" : "wait")};
  options.new_process_group = true;
  auto pid = spawn_process(options);
  return pid ? *pid : -1;
}

void wait_until_found(size_t count) {
  for (int i = 0; i < 3000 && descendants_of(::getpid()).size() < count; ++i) ::usleep(10000);
}

TEST(DescendantsTest, DetachedProcessesAreFoundKilledAndReaped) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  pid_t pid = start_family(false);
  ASSERT_GT(pid, 0);
  wait_until_found(3);
  EXPECT_GE(descendants_of(::getpid()).size(), 3U);
  EXPECT_GE(kill_descendants(std::chrono::seconds(5)), 3);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(DescendantsTest, OneThatHasEndedIsFoundIfAskedForUntilItIsWaitedFor) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  const auto is_found = [pid](bool ended) {
    const std::vector<pid_t> found = descendants_of(::getpid(), ended);
    return std::count(found.begin(), found.end(), pid) == 1;
  };
  siginfo_t info = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_found(false));
  EXPECT_TRUE(is_found(true));
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  EXPECT_FALSE(is_found(true));
}

TEST(DescendantsTest, OrphansAreFoundToo) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  pid_t pid = start_family(true);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  wait_until_found(2);
  EXPECT_GE(kill_descendants(std::chrono::seconds(5)), 2);
  EXPECT_TRUE(descendants_of(::getpid()).empty());
}

int64_t ended_after_ms(const char* script, std::chrono::milliseconds limit) {
  SpawnOptions options;
  options.argv = {"sh", "-c", script};
  options.ignored_signals = {SIGTERM};
  const auto pid = spawn_process(options);
  if (!pid) return -1;
  const auto begin = std::chrono::steady_clock::now();
  end_child(*pid, limit);
  // On a busy machine one that was killed may die a moment later; end_child() does not wait for it without end.
  int status = 0;
  if (::waitpid(*pid, &status, 0) == *pid)
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it was not reaped";
  else
    EXPECT_EQ(errno, ECHILD);
  const auto since = std::chrono::steady_clock::now() - begin;
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

TEST(EndChildTest, OneThatEndsIsReapedAndOneThatDoesNotIsKilledAfterTheLimit) {
  EXPECT_LT(ended_after_ms("exit 0", std::chrono::seconds(100)), 50'000);
  const int64_t killed = ended_after_ms("exec sleep 1000", std::chrono::milliseconds(300));
  EXPECT_GE(killed, 300);
  EXPECT_LT(killed, 50'000);
  EXPECT_LT(ended_after_ms("exec sleep 1000", std::chrono::milliseconds(0)), 50'000);
}

TEST(EndChildTest, AProcessThatIsNoChildIsLeftAlone) {
  end_child(::getppid(), std::chrono::seconds(100));
  EXPECT_EQ(::kill(::getppid(), 0), 0);
}

TEST(DescendantsTest, NothingToDoIsDoneAtOnce) {
  EXPECT_EQ(kill_descendants(std::chrono::seconds(5)), 0);
}

TEST(DescendantsTest, TheSweepFindsProcessesByTheirMark) {
  std::string mark = "DL_RUN_ID=test-" + std::to_string(::getpid());
  SpawnOptions options;
  options.argv = {"sleep", "1000"};
  options.environment = {{"PATH=/usr/bin:/bin", mark}};
  auto marked = spawn_process(options);
  options.environment = {{"PATH=/usr/bin:/bin", mark + "x"}};
  auto other = spawn_process(options);
  ASSERT_TRUE(marked && other);
  EXPECT_EQ(sweep_marked(mark), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(*marked, &status, 0), *marked);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(::waitpid(*other, nullptr, WNOHANG), 0) << "another run's process must live";
  ::kill(*other, SIGKILL);
  ::waitpid(*other, nullptr, 0);
}

TEST(ChildProcessTest, CommandsAreRunWithoutAShell) {
  auto result = run_command({"printf", "%s", "$HOME;ls"});
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(result->out, "$HOME;ls");
  EXPECT_TRUE(result->ok());
  result =
      run_command({"sh", "-c", "cat; echo err >&2; exit 3"}, {std::chrono::seconds(5), "input\n", {}, {}, 100, {}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out, "input\n");
  EXPECT_EQ(result->err, "err\n");
  EXPECT_EQ(result->exit_code, 3);
}

TEST(ChildProcessTest, VariablesAreSetAndLeftOut) {
  ::setenv("DL_TEST_KEPT", "kept", 1);
  ::setenv("DL_TEST_LEFT_OUT", "left out", 1);
  CommandOptions options;
  options.environment = {"DL_TEST_SET=set"};
  options.without = {"DL_TEST_LEFT_OUT"};
  const auto result = run_command({"sh", "-c", "echo $DL_TEST_KEPT $DL_TEST_SET ${DL_TEST_LEFT_OUT-none}"}, options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out, "kept set none\n");
}

TEST(ChildProcessTest, FailuresAreNamed) {
  EXPECT_EQ(run_command({"no-such-program-of-ours"}).error().code, Errc::kNotFound);
  EXPECT_EQ(run_command({"/etc/passwd"}).error().code, Errc::kDenied);
  auto slow = run_command({"sleep", "1000"}, {std::chrono::milliseconds(50), "", {}, {}, 100, {}});
  ASSERT_FALSE(slow);
  EXPECT_EQ(slow.error().code, Errc::kTimeout);
  auto signalled = run_command({"sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(signalled);
  EXPECT_EQ(signalled->signal, SIGKILL);
}

TEST(LogTeeTest, WholeLinesArePrefixedAndTheLogIsExact) {
  char name[] = "/tmp/dl-tee-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  std::string log = std::string(name) + "/log";
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    LogTee tee;
    ASSERT_TRUE(tee.open(log, ends[1], "[3] "));
    tee.feed("one\ntw");
    tee.feed("o\r50%\r\nlast");
    tee.finish(std::chrono::seconds(1));
  }
  ::close(ends[1]);
  char buffer[200];
  ssize_t n = ::read(ends[0], buffer, sizeof buffer);
  ::close(ends[0]);
  EXPECT_EQ(std::string(buffer, n > 0 ? static_cast<size_t>(n) : 0), "[3] one\n[3] two\r[3] 50%\r\n[3] last\n");
  EXPECT_EQ(*read_small_file(log, 1000), "one\ntwo\r50%\r\nlast");
  ::unlink(log.c_str());
  ::rmdir(name);
}

}  // namespace
}  // namespace dl::agent
