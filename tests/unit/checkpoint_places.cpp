// SPDX-License-Identifier: Apache-2.0
// Places where a checkpoint does not fit or may not be written: disks that are full at each point of a save, and a
// read-only file system. Real ones: tmpfs in a mount namespace of a child, for which one must be root.
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr size_t kWeights = 40000;  // 160 kB

// body() in a child with a mount namespace of its own, where `dir` is a tmpfs; what it returns is what went wrong.
// False where that is not allowed.
bool on_tmpfs(const std::string& dir, const std::string& options, const std::function<std::string()>& body,
              std::string* wrong) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const pid_t pid = fork();
  if (pid < 0) return false;
  if (pid == 0) {
    close(ends[0]);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", dir.c_str(), "tmpfs", 0, options.c_str()) != 0)
      _exit(77);
    const std::string text = body();
    if (write(ends[1], text.data(), text.size()) < 0) _exit(2);
    _exit(0);
  }
  close(ends[1]);
  char buffer[4096];
  ssize_t n = 0;
  while ((n = read(ends[0], buffer, sizeof buffer)) > 0) wrong->append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return false;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return false;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) *wrong += "the child died: " + std::to_string(status);
  return true;
}

TEST(CheckpointPlaces, ADiskThatIsFullAtEachPointOfASaveLosesNothing) {
  const TempDir dir;
  int refused = 0, saved_all = 0;
  // One checkpoint takes about 176 kB: from one that hardly fits to three with room to spare, page by page.
  for (int kib = 184; kib <= 560; kib += 12) {
    std::string wrong;
    const bool ran = on_tmpfs(
        dir.path(), "size=" + std::to_string(kib) + "k",
        [&]() -> std::string {
          auto first = save_pattern(dir.path(), 1, posix_io(), 3, kWeights);
          if (!first) return "";  // not even one fits: nothing to lose
          int64_t newest = 1;
          std::string said;
          for (int64_t step = 2; step <= 3; ++step) {
            auto saved = save_pattern(dir.path(), step, posix_io(), 3, kWeights);
            if (saved) newest = step;
            if (!saved && saved.error().code != Errc::kNoSpace) return "another error: " + saved.error().text;
            said += saved ? "+" : "-";
          }
          // Loading needs the lease, which needs a page. A disk without one is refused as full.
          auto restored = restore_pattern(dir.path(), nullptr, posix_io(), kWeights);
          if (!restored && restored.error().code != Errc::kNoSpace) return "not loaded: " + restored.error().text;
          if (restored && *restored != newest) return "an older one was loaded";
          auto names = scan_checkpoints(posix_io(), dir.path());
          if (!names || names->front().step != newest) return "the newest is gone";
          for (const CheckpointName& name : *names)
            if (auto whole = verify_checkpoint(posix_io(), dir.path(), name); !whole) return whole.error().text;
          return said;
        },
        &wrong);
    if (!ran) GTEST_SKIP() << "a tmpfs in a mount namespace needs root";
    ASSERT_TRUE(wrong.find_first_not_of("+-") == std::string::npos) << kib << " KiB: " << wrong;
    refused += wrong.find('-') != std::string::npos;
    saved_all += wrong == "++";
  }
  EXPECT_GT(refused, 5);
  EXPECT_GT(saved_all, 0);
}

TEST(CheckpointPlaces, AReadOnlyFileSystemIsDeniedAndItsCheckpointsStayWhole) {
  const TempDir dir;
  std::string wrong;
  const bool ran = on_tmpfs(
      dir.path(), "size=4m",
      [&]() -> std::string {
        if (auto saved = save_pattern(dir.path(), 1, posix_io(), 3, kWeights); !saved) return saved.error().text;
        if (mount("tmpfs", dir.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=4m") != 0) return "remount";
        auto context = open_context(settings_for(dir.path()));
        if (context) return "a context was opened";
        if (context.error().code != Errc::kDenied && context.error().sys_errno != EROFS)
          return "another error: " + context.error().text;
        auto names = scan_checkpoints(posix_io(), dir.path());
        if (!names || names->size() != 1) return "it cannot be listed";
        auto whole = verify_checkpoint(posix_io(), dir.path(), names->front());
        return whole ? "" : whole.error().text;
      },
      &wrong);
  if (!ran) GTEST_SKIP() << "a tmpfs in a mount namespace needs root";
  EXPECT_EQ(wrong, "");
}

}  // namespace
}  // namespace dl::ckpt::test
