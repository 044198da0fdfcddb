// SPDX-License-Identifier: Apache-2.0
// The process that looks at jobs for `dlctl top`, where the user may start none.
#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <set>

#include "common/base/unique_fd.h"
#include "launcher/ctl/top_child.h"

namespace dl::ctl {
namespace {

constexpr int kNotThatUser = 99;

// A user id that has no name and no process; 0: none was found.
uid_t unused_uid() {
  std::set<uid_t> used;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator("/proc", ignored)) {
    struct stat status {};
    if (::stat(item.path().c_str(), &status) == 0) used.insert(status.st_uid);
  }
  for (uid_t uid = 61'000; uid < 61'100; ++uid)
    if (used.count(uid) == 0 && ::getpwuid(uid) == nullptr) return uid;  // NOLINT(concurrency-mt-unsafe): one thread
  return 0;
}

// Starts a process of this user, never of root, that ends with what `act` returns.
pid_t start_as(uid_t uid, const std::function<int()>& act) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  if (uid == 0 || ::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0 ||
      ::getuid() != uid || ::geteuid() != uid)
    ::_exit(kNotThatUser);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::_exit(act());
}

// With -1 in place of the child's id, kill() would end every process of the user. It is a user of this test's own, so
// that no other process can be hit.
TEST(CtlTopChildTest, WhereNoProcessCanBeStartedNoOtherOneIsKilled) {
  const uid_t uid = ::geteuid() == 0 ? unused_uid() : 0;
  if (uid == 0) GTEST_SKIP() << "needs root, to be another user";
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t other = start_as(uid, [&] {
    if (::write(out.get(), "x", 1) != 1) return 1;
    for (;;) ::pause();
  });
  ASSERT_GT(other, 0);
  out.reset();
  char byte = 0;
  const bool runs = ::read(in.get(), &byte, 1) == 1;
  int status = 0;
  if (!runs) {
    ::waitpid(other, &status, 0);
    GTEST_SKIP() << "this root may not be another user";
  }
  const pid_t starter = start_as(uid, [] {
    const struct rlimit most = {1, 1};  // two run already
    if (::setrlimit(RLIMIT_NPROC, &most) != 0) return kNotThatUser;
    const auto child = LookChild::start([](const std::string&) { return std::string(); });
    if (child) return 1;
    return child.error().text.find("fork") != std::string::npos ? 0 : 2;
  });
  ASSERT_GT(starter, 0);
  ASSERT_EQ(::waitpid(starter, &status, 0), starter);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // The first signal that ends a process is the one that is told.
  ::kill(other, SIGTERM);
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

}  // namespace
}  // namespace dl::ctl
