// SPDX-License-Identifier: Apache-2.0
// dlckpt.h as a C program uses it: wrong arguments of every kind, directories of every kind, and a disk that is full.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "checkpoint/include/dlckpt.h"
#include "checkpoint/include/dlckpt_lease.h"
#include "checkpoint/include/dlckpt_read.h"
#include "checkpoint/store/directory.h"
#include "tests/unit/checkpoint_environment.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

dlckpt_ctx* open_c(const std::string& dir) {
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.c_str();
  options.world_size = 1;
  dlckpt_ctx* ctx = nullptr;
  EXPECT_EQ(dlckpt_open(&options, &ctx), DLCKPT_OK) << dlckpt_open_error();
  return ctx;
}

TEST(CheckpointC, AWholeLife) {
  const Environment env({});
  const TempDir dir;
  dlckpt_ctx* ctx = open_c(dir.path() + "/new");
  float w[6] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  ASSERT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 2, shape, nullptr, nullptr, w, DLCKPT_REPLICATED), DLCKPT_OK);
  ASSERT_EQ(dlckpt_blob(ctx, "rng", "abc", 3, 1), DLCKPT_OK);
  EXPECT_EQ(dlckpt_latest(ctx), -1);
  int64_t step = 77;
  EXPECT_EQ(dlckpt_restore(ctx, DLCKPT_LATEST, &step), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(step, 77);
  EXPECT_STRNE(dlckpt_errmsg(ctx), "");
  ASSERT_EQ(dlckpt_save(ctx, 5), DLCKPT_OK) << dlckpt_errmsg(ctx);
  EXPECT_STREQ(dlckpt_errmsg(ctx), "");
  EXPECT_EQ(dlckpt_latest(ctx), 5);
  w[0] = 0;
  ASSERT_EQ(dlckpt_restore(ctx, DLCKPT_LATEST, &step), DLCKPT_OK);
  EXPECT_EQ(step, 5);
  EXPECT_EQ(w[0], 1);
  const void* data = nullptr;
  size_t size = 0;
  ASSERT_EQ(dlckpt_get_blob(ctx, "rng", &data, &size), DLCKPT_OK);
  EXPECT_EQ(std::string(static_cast<const char*>(data), size), "abc");
  EXPECT_EQ(dlckpt_get_blob(ctx, "none", &data, &size), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(dlckpt_forget(ctx, "w"), DLCKPT_OK);
  EXPECT_EQ(dlckpt_forget(ctx, "w"), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(dlckpt_restore(ctx, 5, nullptr), DLCKPT_OK);
  dlckpt_finished(ctx);
  EXPECT_EQ(dlckpt_exit_code(ctx), 76);
  dlckpt_close(ctx);
  EXPECT_TRUE(leftovers(dir.path() + "/new").empty());
}

TEST(CheckpointC, WrongArgumentsAreRefusedAndNothingIsDone) {
  const Environment env({});
  const TempDir dir;
  EXPECT_EQ(dlckpt_open(nullptr, nullptr), DLCKPT_E_INVALID);
  dlckpt_ctx* ctx = nullptr;
  EXPECT_EQ(dlckpt_open(nullptr, &ctx), DLCKPT_E_INVALID);
  EXPECT_EQ(ctx, nullptr);
  EXPECT_STRNE(dlckpt_open_error(), "");
  ctx = open_c(dir.path());
  float w[4] = {};
  const int64_t shape[] = {4}, negative[] = {-1}, two[] = {2}, three[] = {3}, zero[] = {0};
  const int64_t far[] = {INT64_MIN};
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  int64_t many[40];
  std::fill(std::begin(many), std::end(many), 1);
  struct Case {
    const char* what;
    int rc;
  };
  const Case cases[] = {
      {"NULL name", dlckpt_tensor(ctx, nullptr, DLCKPT_F32, 1, shape, nullptr, nullptr, w, 0)},
      {"empty name", dlckpt_tensor(ctx, "", DLCKPT_F32, 1, shape, nullptr, nullptr, w, 0)},
      {"empty part", dlckpt_tensor(ctx, "a//b", DLCKPT_F32, 1, shape, nullptr, nullptr, w, 0)},
      {"control character", dlckpt_tensor(ctx, "a\nb", DLCKPT_F32, 1, shape, nullptr, nullptr, w, 0)},
      {"not UTF-8", dlckpt_tensor(ctx, "\xff", DLCKPT_F32, 1, shape, nullptr, nullptr, w, 0)},
      {"dtype 0", dlckpt_tensor(ctx, "w", static_cast<dlckpt_dtype>(0), 1, shape, nullptr, nullptr, w, 0)},
      {"dtype 18", dlckpt_tensor(ctx, "w", static_cast<dlckpt_dtype>(18), 1, shape, nullptr, nullptr, w, 0)},
      {"-1 dimensions", dlckpt_tensor(ctx, "w", DLCKPT_F32, -1, shape, nullptr, nullptr, w, 0)},
      {"33 dimensions", dlckpt_tensor(ctx, "w", DLCKPT_F32, 33, many, nullptr, nullptr, w, 0)},
      {"no shape", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, nullptr, nullptr, nullptr, w, 0)},
      {"negative size", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, negative, nullptr, nullptr, w, 0)},
      {"overflow", dlckpt_tensor(ctx, "w", DLCKPT_F32, 2, huge, nullptr, nullptr, w, 0)},
      {"offset alone", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, two, nullptr, w, 0)},
      {"outside", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, two, three, w, 0)},
      {"negative offset", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, negative, two, w, 0)},
      {"another part of nothing", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, two, two, w, DLCKPT_ANOTHER_PART)},
      {"huge stride", dlckpt_tensor_strided(ctx, "w", DLCKPT_F32, 1, shape, nullptr, nullptr, far, w, 0)},
      {"NULL data", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, nullptr, nullptr, nullptr, 0)},
      {"unknown flag", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, nullptr, nullptr, w, 64)},
      {"NULL blob", dlckpt_blob(ctx, "b", nullptr, 3, 0)},
      {"huge blob", dlckpt_blob(ctx, "b", w, (size_t{1} << 30) + 1, 0)},
      {"negative step", dlckpt_save(ctx, -1)},
      {"huge step", dlckpt_save(ctx, INT64_MAX)},
      {"negative step to restore", dlckpt_restore(ctx, -2, nullptr)},
      {"NULL results", dlckpt_get_blob(ctx, "b", nullptr, nullptr)},
      {"NULL context", dlckpt_save(nullptr, 1)},
  };
  for (const Case& c : cases) EXPECT_EQ(c.rc, DLCKPT_E_INVALID) << c.what;
  EXPECT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, zero, nullptr, nullptr, nullptr, 0), DLCKPT_OK);
  EXPECT_EQ(dlckpt_forget(ctx, "w"), DLCKPT_OK);
  EXPECT_EQ(dlckpt_want(nullptr, 1), 0);
  EXPECT_EQ(dlckpt_latest(nullptr), -1);
  EXPECT_STRNE(dlckpt_errmsg(nullptr), "");
  dlckpt_finished(nullptr);
  dlckpt_close(nullptr);
  EXPECT_EQ(dlckpt_latest(ctx), -1);  // nothing of all this was saved
  dlckpt_close(ctx);
  EXPECT_STREQ(dlckpt_error_name(DLCKPT_E_NO_SPACE), "DLCKPT_E_NO_SPACE");
  EXPECT_STREQ(dlckpt_error_name(99), "unknown error");
  EXPECT_EQ(dlckpt_dtype_size(DLCKPT_C128), 16U);
  EXPECT_EQ(dlckpt_dtype_size(static_cast<dlckpt_dtype>(77)), 0U);
  EXPECT_STREQ(dlckpt_dtype_name(DLCKPT_BF16), "bfloat16");
  EXPECT_EQ(dlckpt_dtype_name(static_cast<dlckpt_dtype>(77)), nullptr);
  EXPECT_STRNE(dlckpt_version(), "");
}

int try_open(const std::string& dir) {
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.c_str();
  options.world_size = 1;
  dlckpt_ctx* ctx = nullptr;
  const int rc = dlckpt_open(&options, &ctx);
  EXPECT_EQ(rc == DLCKPT_OK, ctx != nullptr);
  if (ctx && rc == DLCKPT_OK) {
    float w = 1;
    dlckpt_tensor(ctx, "w", DLCKPT_F32, 0, nullptr, nullptr, nullptr, &w, 0);
    const int saved = dlckpt_save(ctx, 1);
    dlckpt_close(ctx);
    return saved;
  }
  return rc;
}

TEST(CheckpointC, DirectoriesThatCannotBe) {
  const Environment env({});
  const TempDir dir;
  EXPECT_EQ(try_open(dir.path() + "/no/parent"), DLCKPT_E_NOT_FOUND);
  write_file(dir.path() + "/file", "x");
  EXPECT_EQ(try_open(dir.path() + "/file"), DLCKPT_E_INVALID);
  EXPECT_EQ(try_open(dir.path() + "/file/below"), DLCKPT_E_IO);
  EXPECT_NE(try_open(std::string(5000, 'x')), DLCKPT_OK);
  EXPECT_EQ(try_open(dir.path() + "/" + std::string(255, 'x')), DLCKPT_OK);
  EXPECT_NE(try_open(dir.path() + "/" + std::string(256, 'x')), DLCKPT_OK);
}

// A relative path means the same file as long as a context or reader is open.
TEST(CheckpointC, TheProgramMayChangeItsWorkingDirectory) {
  const Environment env({});
  const TempDir dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(dir.path() + "/elsewhere");
  write_file(dir.path() + "/own", "of the program");
  std::filesystem::current_path(dir.path());
  dlckpt_ctx* ctx = open_c("ck");
  float w[2] = {1, 2};
  const int64_t shape[] = {2};
  EXPECT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, nullptr, nullptr, w, DLCKPT_REPLICATED), DLCKPT_OK);
  EXPECT_EQ(dlckpt_member(ctx, "own", "own", 0), DLCKPT_OK);
  EXPECT_EQ(dlckpt_save(ctx, 1), DLCKPT_OK);
  EXPECT_EQ(dlckpt_wait(ctx, -1, nullptr), DLCKPT_OK);
  dlckpt_reader* reader = nullptr;
  EXPECT_EQ(dlckpt_reader_open("./ck/", DLCKPT_LATEST, &reader), DLCKPT_OK) << dlckpt_open_error();
  std::filesystem::current_path(dir.path() + "/elsewhere");
  EXPECT_EQ(dlckpt_save(ctx, 2), DLCKPT_OK);
  EXPECT_EQ(dlckpt_wait(ctx, -1, nullptr), DLCKPT_OK) << dlckpt_errmsg(ctx);
  w[0] = 0;
  EXPECT_EQ(dlckpt_restore(ctx, 2, nullptr), DLCKPT_OK) << dlckpt_errmsg(ctx);
  EXPECT_EQ(w[0], 1);
  w[0] = 0;
  EXPECT_EQ(dlckpt_reader_load(reader, "w", nullptr, nullptr, w, sizeof w), DLCKPT_OK) << dlckpt_reader_errmsg(reader);
  EXPECT_EQ(w[0], 1);
  dlckpt_close(ctx);
  dlckpt_reader_close(reader);
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path() + "/elsewhere"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/ck/LEASE"));
}

TEST(CheckpointC, OneCheckpointIsRefusedAsADirectoryOfCheckpoints) {
  const Environment env({});
  const TempDir dir;
  EXPECT_EQ(try_open(dir.path()), DLCKPT_OK);
  const auto names = scan_checkpoints(posix_io(), dir.path());
  ASSERT_EQ(names->size(), 1U);
  const std::string checkpoint = checkpoint_path(dir.path(), names->front());
  for (const char* slash : {"", "/"}) {
    EXPECT_EQ(try_open(checkpoint + slash), DLCKPT_E_INVALID);
    EXPECT_NE(std::string(dlckpt_open_error())
                  .find("is one checkpoint; allowed: a checkpoint directory, such as " + dir.path() +
                        ", of which this is train step 1"),
              std::string::npos)
        << dlckpt_open_error();
    dlckpt_reader* reader = nullptr;
    EXPECT_EQ(dlckpt_reader_open((checkpoint + slash).c_str(), DLCKPT_LATEST, &reader), DLCKPT_E_INVALID);
  }
  EXPECT_FALSE(std::filesystem::exists(checkpoint + "/LEASE"));
}

TEST(CheckpointC, AContextMayBeClosedInAForkedChild) {
  const Environment env({});
  const TempDir dir;
  dlckpt_ctx* ctx = open_c(dir.path());
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    dlckpt_close(ctx);  // as a data loader's worker does at its end
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(dlckpt_save(ctx, 1), DLCKPT_OK) << dlckpt_errmsg(ctx);  // the lease is still held
  dlckpt_close(ctx);
}

TEST(CheckpointC, EveryCallButCloseIsRefusedInAForkedChild) {
  const Environment env({});
  const TempDir dir;
  dlckpt_ctx* ctx = open_c(dir.path());
  std::vector<float> w(1 << 20, 1.0F);
  const auto n = static_cast<int64_t>(w.size());
  ASSERT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, &n, nullptr, nullptr, w.data(), DLCKPT_REPLICATED), DLCKPT_OK);
  ASSERT_EQ(dlckpt_blob(ctx, "b", "x", 1, 0), DLCKPT_OK);
  ASSERT_EQ(dlckpt_save_flags(ctx, 1, DLCKPT_SYNC), DLCKPT_OK) << dlckpt_errmsg(ctx);
  ASSERT_EQ(dlckpt_restore(ctx, DLCKPT_LATEST, nullptr), DLCKPT_OK);
  ASSERT_EQ(dlckpt_save(ctx, 2), DLCKPT_OK) << "one is in flight when the process forks";
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    alarm(20);  // what hangs ends by a signal
    const auto refused = [&](int rc) { return rc == DLCKPT_E_INVALID && std::strstr(dlckpt_errmsg(ctx), "fork()"); };
    int64_t step = -5;
    const void* bytes = nullptr;
    size_t size = 0;
    dlckpt_save_stats saved{};
    saved.struct_size = sizeof saved;
    dlckpt_load_stats loaded{};
    loaded.struct_size = sizeof loaded;
    const bool good =
        refused(dlckpt_save(ctx, 3)) && refused(dlckpt_save_flags(ctx, 3, DLCKPT_SYNC)) &&
        refused(dlckpt_restore(ctx, DLCKPT_LATEST, &step)) && refused(dlckpt_peek(ctx, DLCKPT_LATEST, &step)) &&
        refused(dlckpt_wait(ctx, -1, &step)) && refused(dlckpt_before_mutation(ctx)) &&
        refused(dlckpt_stats(ctx, &saved)) && refused(dlckpt_restore_stats(ctx, &loaded)) &&
        refused(dlckpt_metric(ctx, "m", 1)) && refused(dlckpt_blob(ctx, "c", "x", 1, 0)) &&
        refused(dlckpt_member(ctx, "m", "/f", 0)) && refused(dlckpt_get_blob(ctx, "b", &bytes, &size)) &&
        refused(dlckpt_forget(ctx, "w")) &&
        refused(dlckpt_tensor(ctx, "v", DLCKPT_F32, 1, &n, nullptr, nullptr, w.data(), 0)) &&
        refused(dlckpt_tensor_strided(ctx, "v", DLCKPT_F32, 1, &n, nullptr, nullptr, nullptr, w.data(), 0));
    bool quiet = dlckpt_want(ctx, 4) == 0 && dlckpt_latest(ctx) == -1 && dlckpt_exit_code(ctx) == 76 && step == -5;
    dlckpt_finished(ctx);
    dlckpt_close(ctx);
    // It may open one of its own.
    const TempDir other;
    dlckpt_ctx* own = open_c(other.path());
    quiet = quiet && dlckpt_save_flags(own, 1, DLCKPT_SYNC) == DLCKPT_OK;
    dlckpt_close(own);
    _exit(good ? quiet ? 0 : 2 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(dlckpt_wait(ctx, -1, nullptr), DLCKPT_OK) << dlckpt_errmsg(ctx);
  EXPECT_EQ(dlckpt_latest(ctx), 2);
  dlckpt_close(ctx);
}

TEST(CheckpointC, ALeaseIsNotRenewedByAForkedChild) {
  const TempDir dir;
  dlckpt_lease* lease = nullptr;
  ASSERT_EQ(dlckpt_lease_acquire(dir.path().c_str(), "test", nullptr, &lease), DLCKPT_OK);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    const int rc = dlckpt_lease_renew(lease);
    dlckpt_lease_release(lease);
    _exit(rc == DLCKPT_E_INVALID ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(dlckpt_lease_renew(lease), DLCKPT_OK) << dlckpt_open_error();
  dlckpt_lease_release(lease);
}

// In a child with a mount namespace of its own. The result is its exit status; 77: cannot be done here.
template <typename Body>
int with_tmpfs(const std::string& where, const char* options, Body&& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", where.c_str(), "tmpfs", 0, options) != 0)
      _exit(77);
    _exit(body());
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return 255;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(CheckpointFullDisk, AtEveryPointTheOldOneStaysAndTheAttemptGoes) {
  const Environment env({});
  const TempDir dir;
  const int rc = with_tmpfs(dir.path(), "size=2m", [&]() -> int {
    const std::string ckpt = dir.path() + "/c";
    if (!save_pattern(ckpt, 1, posix_io(), 3, 50000)) return 10;
    int64_t step = 1;
    int full = 0, saved = 0;
    // A filler leaves less and less room.
    for (size_t filler = 1000; filler <= 1900; filler += 12) {
      write_file(dir.path() + "/filler", std::string(filler * 1024, 'f'));
      auto outcome = save_pattern(ckpt, step + 1, posix_io(), 1, 50000);
      if (outcome) {
        ++step;
        ++saved;
      } else {
        if (outcome.error().code != Errc::kNoSpace) {
          write(2, outcome.error().text.c_str(), outcome.error().text.size());
          return 11;
        }
        ++full;
      }
      for (const std::string& left : leftovers(ckpt))
        if (left.find(".tmp-step") == 0) return 12;
      std::filesystem::remove(dir.path() + "/filler");
      std::string note;
      auto restored = restore_pattern(ckpt, &note, posix_io(), 50000);
      if (!restored || *restored != step || !note.empty()) return 13;
    }
    if (testing::Test::HasFailure()) return 14;
    return full > 5 && saved > 5 ? 0 : 15;
  });
  if (rc == 77) GTEST_SKIP() << "needs root, to mount a small file system in a namespace of its own";
  EXPECT_EQ(rc, 0);
}

TEST(CheckpointFullDisk, OfSeveralRanksAllAreToldTheSame) {
  const Environment env({});
  const TempDir dir;
  const int rc = with_tmpfs(dir.path(), "size=3m", [&]() -> int {
    if (!save_pattern(dir.path(), 1, posix_io(), 3, 1000)) return 10;
    std::vector<Status> outcome(3);
    run_ranks(3, [&](int rank) {
      Settings settings = settings_for(dir.path(), rank, 3);
      settings.timeout_s = 20;
      auto context = open_context(settings);
      if (!context) return;
      PatternState state(2000000);  // 8 MB over three ranks
      state.fill(2);
      if (state.enroll(**context)) outcome[static_cast<size_t>(rank)] = (*context)->save(2);
    });
    for (const Status& status : outcome)
      if (status || status.error().code != Errc::kNoSpace || status.error().text != outcome[0].error().text) return 11;
    if (!leftovers(dir.path()).empty()) return 12;
    auto restored = restore_pattern(dir.path(), nullptr, posix_io(), 1000);
    return restored && *restored == 1 ? 0 : 13;
  });
  if (rc == 77) GTEST_SKIP() << "needs root, to mount a small file system in a namespace of its own";
  EXPECT_EQ(rc, 0);
}

TEST(CheckpointFullDisk, AReadOnlyFileSystemIsDenied) {
  const Environment env({});
  const TempDir dir;
  const int rc = with_tmpfs(dir.path(), "size=2m", [&]() -> int {
    if (!save_pattern(dir.path(), 1, posix_io(), 3, 1000)) return 10;
    if (mount("none", dir.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return 77;
    return try_open(dir.path()) == DLCKPT_E_DENIED && try_open(dir.path() + "/new") == DLCKPT_E_DENIED ? 0 : 11;
  });
  if (rc == 77) GTEST_SKIP() << "needs root, to mount a small file system in a namespace of its own";
  EXPECT_EQ(rc, 0);
}

TEST(CheckpointC, AnUnwritableDirectoryIsDenied) {
  if (getuid() == 0) {
    // Root may write everywhere; a child that is nobody may not.
    const Environment env({});
    const TempDir dir;
    std::filesystem::create_directory(dir.path() + "/c");
    chmod(dir.path().c_str(), 0755);
    chmod((dir.path() + "/c").c_str(), 0555);
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      if (setgid(65534) != 0 || setuid(65534) != 0) _exit(77);
      _exit(try_open(dir.path() + "/c") == DLCKPT_E_DENIED && try_open(dir.path() + "/d") == DLCKPT_E_DENIED ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  } else {
    EXPECT_EQ(try_open("/proc/no"), DLCKPT_E_NOT_FOUND);
    EXPECT_EQ(try_open("/no"), DLCKPT_E_DENIED);
  }
}

}  // namespace
}  // namespace dl::ckpt::test
