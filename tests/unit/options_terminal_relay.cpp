// SPDX-License-Identifier: Apache-2.0
// The terminal's relay in the children of dlrun: its end of the pipe is closed there once, and nothing else ever.
#include "launcher/options/terminal_relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace dl {
namespace {

constexpr int kFirst = 3, kMost = 40;

// In a process whose standard input is a terminal: 0, or what went wrong.
int relay_and_fork() {
  if (!relay_terminal()) return 10;
  const pid_t child = ::fork();
  if (child != 0) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 11;
  }
  // The next file gets the number that the pipe's end had.
  while (::open("/dev/null", O_RDONLY | O_CLOEXEC) < kMost) {
  }
  const pid_t grandchild = ::fork();
  if (grandchild == 0) {
    for (int fd = kFirst; fd < kMost; ++fd)
      if (::fcntl(fd, F_GETFD) < 0) ::_exit(1);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(grandchild, &status, 0);
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 12);
}

TEST(TerminalRelayTest, ClosesNothingThatHasTheNumberOfItsPipeLaterOn) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(master, 0);
  ASSERT_EQ(::grantpt(master), 0);
  ASSERT_EQ(::unlockpt(master), 0);
  const char* name = ::ptsname(master);  // NOLINT(concurrency-mt-unsafe)
  ASSERT_NE(name, nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int terminal = ::open(name, O_RDWR | O_NOCTTY);
    ::dup2(terminal, STDIN_FILENO);
    ::_exit(relay_and_fork());
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ::close(master);
}

}  // namespace
}  // namespace dl
