// SPDX-License-Identifier: Apache-2.0
// What a sick file system says once: a failed fsync (after which the kernel has dropped the pages), EINTR, and what
// network file systems answer to locking. Also the lease with every operation failing, and clocks that go backwards.
#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "checkpoint/store/lease.h"
#include "tests/unit/checkpoint_faulty_io.h"
#include "tests/unit/checkpoint_model_io.h"
#include "tests/unit/checkpoint_sick_io.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr const char* kDir = "/ckpt";
constexpr size_t kWeights = 17000;

TEST(CheckpointSyncFaults, AFailedFsyncIsNeverTriedAgainAndNothingIsCommitted) {
  ModelIo before;
  ASSERT_TRUE(save_pattern(kDir, 1, before, 3, kWeights));
  int at = 0;
  for (;; ++at) {
    for (const int error : {EIO, ENOSPC, EDQUOT, EINTR}) {
      SickIo io(before.state(), at, error);
      auto saved = save_pattern(kDir, 2, io, 3, kWeights);
      if (!io.fired()) break;
      SCOPED_TRACE("fsync " + std::to_string(at) + " of " + io.failed() + ": " + std::to_string(error));
      EXPECT_FALSE(io.tried_again());
      ASSERT_FALSE(saved);
      EXPECT_EQ(saved.error().code, error == ENOSPC || error == EDQUOT ? Errc::kNoSpace : Errc::kIo);
      auto names = scan_checkpoints(io, kDir);
      ASSERT_TRUE(names);
      ASSERT_EQ(names->size(), 1U) << "it has a published name";
      auto restored = restore_pattern(kDir, nullptr, io, kWeights);
      ASSERT_TRUE(restored) << restored.error().text;
      EXPECT_EQ(*restored, 1);
      ASSERT_TRUE(save_pattern(kDir, 3, io, 3, kWeights));
    }
    SickIo probe(before.state(), at, EIO);
    if (save_pattern(kDir, 2, probe, 3, kWeights) && !probe.fired()) break;
  }
  EXPECT_EQ(at, 4);  // data file, manifest, the attempt's directory, the checkpoint directory
}

// A signal may interrupt any transfer; nothing is given up for that. (A failed fsync is failed, whatever it says.)
class InterruptedIo final : public ModelIo {
 public:
  using ModelIo::ModelIo;
  int open(const std::string& path, int flags) override { return interrupted() ? -EINTR : ModelIo::open(path, flags); }
  int64_t pread(int fd, void* buffer, size_t size, uint64_t at) override {
    return interrupted() ? -EINTR : ModelIo::pread(fd, buffer, size, at);
  }
  int64_t pwrite(int fd, const void* buffer, size_t size, uint64_t at) override {
    if (interrupted()) return -EINTR;
    return ModelIo::pwrite(fd, buffer, count_ % 3 == 2 ? (size + 1) / 2 : size, at);  // and some come to half of it
  }
  int fallocate(int fd, uint64_t size) override { return interrupted() ? -EINTR : ModelIo::fallocate(fd, size); }
  int ftruncate(int fd, uint64_t size) override { return interrupted() ? -EINTR : ModelIo::ftruncate(fd, size); }
  int close(int fd) override {
    const int rc = ModelIo::close(fd);
    return interrupted() ? -EINTR : rc;
  }

 private:
  bool interrupted() { return ++count_ % 2 == 0; }
  std::atomic<int> count_{0};
};

TEST(CheckpointSyncFaults, SignalsInEveryTransferAreNoReasonToGiveUp) {
  InterruptedIo io;
  for (int64_t step = 1; step <= 3; ++step) {
    auto saved = save_pattern(kDir, step, io, 2, kWeights);
    ASSERT_TRUE(saved) << saved.error().text;
  }
  auto restored = restore_pattern(kDir, nullptr, io, kWeights);
  ASSERT_TRUE(restored) << restored.error().text;
  EXPECT_EQ(*restored, 3);
}

// Every operation of taking, renewing and giving up the lease fails once, before or after it was done. Two never hold
// it, and whoever was told that he does holds it.
TEST(CheckpointLeaseFaults, EveryOperationFailsOnceAndNeverDoTwoHoldIt) {
  for (const FaultyIo::Mode mode : {FaultyIo::kErrno, FaultyIo::kLateErrno}) {
    for (const int error : {EIO, ENOSPC, EDQUOT, ESTALE, ENOLCK, EOPNOTSUPP, EINTR}) {
      for (int at = 0;; ++at) {
        const TempDir dir;
        FaultyIo io(mode, at, error);
        SCOPED_TRACE(std::string(mode == FaultyIo::kErrno ? "before " : "after ") + std::to_string(at) + ": " +
                     std::to_string(error));
        {
          auto first = Lease::acquire(io, dir.path(), "first", "1", 60);
          if (first) {
            EXPECT_TRUE(check_lease(posix_io(), dir.path(), first->token())) << io.what();
            auto second = Lease::acquire(posix_io(), dir.path(), "second", "2", 60);
            EXPECT_FALSE(second) << io.what();
            if (first->renew()) {
              EXPECT_TRUE(check_lease(posix_io(), dir.path(), first->token())) << io.what();
            }
            // A renewal that failed gave nobody else the lease, and left its file whole.
            EXPECT_TRUE(read_lease(posix_io(), dir.path())) << io.what();
            first->release();
          }
        }
        const bool fired = io.fired();
        // The same job in its next start is never kept out by what a fault left.
        setenv("SLURM_RESTART_COUNT", "1", 1);
        auto next = Lease::acquire(posix_io(), dir.path(), "first", "1", 60);
        unsetenv("SLURM_RESTART_COUNT");
        ASSERT_TRUE(next) << io.what() << ": " << next.error().text;
        if (!fired) break;
      }
    }
  }
}

TEST(CheckpointLeaseFaults, AClockThatGoesBackwardsTakesTheLeaseFromNobody) {
  ModelIo io;
  ASSERT_EQ(io.mkdir(kDir), 0);
  auto holder = Lease::acquire(io, kDir, "holder", "1", 60);
  ASSERT_TRUE(holder);
  io.advance_ms(-3600000);
  auto rival = Lease::acquire(io, kDir, "rival", "2", 60);
  ASSERT_FALSE(rival);
  EXPECT_EQ(rival.error().code, Errc::kBusy);
  EXPECT_NE(rival.error().text.find("holder"), std::string::npos) << rival.error().text;
  EXPECT_TRUE(holder->renew());
  holder->release();
  EXPECT_TRUE(Lease::acquire(io, kDir, "rival", "2", 60));
}

TEST(CheckpointSyncFaults, AClockThatGoesBackwardsDoesNotMakeTheOlderOneTheNewest) {
  ModelIo io;
  for (int64_t step = 1; step <= 4; ++step) {
    ASSERT_TRUE(save_pattern(kDir, step, io, 2, 100));
    io.advance_ms(-7200000);
    auto restored = restore_pattern(kDir, nullptr, io, 100);
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_EQ(*restored, step);
  }
}

// Two jobs that open one directory at the same moment, again and again: one of them has it, and what it saves stays.
TEST(CheckpointTwoJobs, OneOfThemHasTheDirectory) {
  ModelIo io;
  int64_t newest = -1;
  for (int round = 0; round < 60; ++round) {
    std::vector<Status> opened(2), saved(2, Error{Errc::kBusy, ""});
    std::atomic<int> inside{0};
    bool together = false;
    run_ranks(2, [&](int job) {
      const auto which = static_cast<size_t>(job);
      Settings settings = settings_for(kDir);
      settings.job_id = std::to_string(job);
      auto context = open_context(settings, io);
      if (!context) {
        opened[which] = context.error();
        return;
      }
      if (++inside > 1) together = true;
      PatternState state(100);
      state.fill(round * 2 + job);
      if (state.enroll(**context)) saved[which] = (*context)->save(round * 2 + job);
      --inside;
    });
    EXPECT_FALSE(together);
    for (size_t job = 0; job < 2; ++job) {
      if (!opened[job]) {
        EXPECT_EQ(opened[job].error().code, Errc::kBusy) << opened[job].error().text;
      }
      if (saved[job]) newest = std::max<int64_t>(newest, round * 2 + static_cast<int64_t>(job));
    }
    auto restored = restore_pattern(kDir, nullptr, io, 100);
    if (newest < 0) continue;
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_GE(*restored, round > 0 && !saved[0] && !saved[1] ? 0 : round * 2);
  }
  EXPECT_GE(newest, 0);
}

}  // namespace
}  // namespace dl::ckpt::test
