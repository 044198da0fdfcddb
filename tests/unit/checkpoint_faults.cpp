// SPDX-License-Identifier: Apache-2.0
// Every operation of a save, an open and a restore goes wrong once, in every way: never a lost or wrong committed
// checkpoint.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "tests/unit/checkpoint_faulty_io.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr size_t kWeights = 20000;

// A save of train step 2 over a committed train step 1, with one fault; and what must be true afterwards. False when
// the fault came too late to hit anything.
bool save_with_fault(const Fault& fault, int at) {
  const TempDir dir;
  EXPECT_TRUE(save_pattern(dir.path(), 1, posix_io(), 3, kWeights));
  FaultyIo io(fault.mode, at, fault.error);
  bool fired = false;
  {
    Settings settings = settings_for(dir.path());
    settings.keep = 1;  // so that a retirement is in it
    auto context = open_context(settings, io);
    Status saved = Error{Errc::kIo, "not opened"};
    if (context) {
      PatternState state(kWeights);
      state.fill(2);
      EXPECT_TRUE(state.enroll(**context));
      saved = (*context)->save(2);
    } else {
      saved = context.error();
    }
    fired = io.fired();
    if (fault.mode != FaultyIo::kDead) io.heal();
    const std::string where = std::string(fault.name) + " at " + std::to_string(at) + " (" + io.what() + ")";
    SCOPED_TRACE(where);
    auto names = scan_checkpoints(posix_io(), dir.path());
    EXPECT_TRUE(names && !names->empty());
    if (!names || names->empty()) return fired;
    for (const CheckpointName& name : *names) {
      auto verified = verify_checkpoint(posix_io(), dir.path(), name);
      EXPECT_TRUE(verified) << verified.error().text;  // whatever has a published name is whole
    }
    if (saved) {
      EXPECT_EQ(names->front().step, 2);
    } else if (fault.mode != FaultyIo::kDead) {
      EXPECT_EQ(names->front().step, 1) << "reported as failed, but committed: " << saved.error().text;
      EXPECT_FALSE(saved.error().text.empty());
      if (fault.error == ENOSPC || fault.error == EDQUOT) {
        EXPECT_EQ(saved.error().code, Errc::kNoSpace) << saved.error().text;
      }
    }
    if (fault.mode == FaultyIo::kShort) {
      EXPECT_TRUE(saved) << saved.error().text;  // a short transfer is no error
    }
    // The context can still be used after an error.
    if (context && fault.mode != FaultyIo::kDead) {
      PatternState state(kWeights);
      state.fill(3);
      EXPECT_TRUE(state.enroll(**context));
      auto again = (*context)->save(3);
      EXPECT_TRUE(again) << again.error().text;
    }
  }
  const std::string where = std::string(fault.name) + " at " + std::to_string(at);
  SCOPED_TRACE(where);
  if (fault.mode == FaultyIo::kDead) std::filesystem::remove(dir.path() + "/LEASE");  // the dead do not release
  auto restored = restore_pattern(dir.path(), nullptr, posix_io(), kWeights);
  EXPECT_TRUE(restored) << restored.error().text;
  EXPECT_TRUE(leftovers(dir.path()).empty()) << leftovers(dir.path()).front();  // the open of the restore cleaned up
  return fired;
}

class CheckpointFaults : public testing::TestWithParam<Fault> {};

TEST_P(CheckpointFaults, InEveryOperationOfASave) {
  int at = 0;
  while (save_with_fault(GetParam(), at)) {
    ++at;
    if (HasFailure()) break;
  }
  EXPECT_GT(at, 30);  // that many operations an open and a save have
}

// Registered memory is what it was, or wholly that of a committed checkpoint.
bool restore_with_fault(const std::string& dir, const Fault& fault, int at) {
  FaultyIo io(fault.mode, at, fault.error);
  const std::string where = std::string(fault.name) + " at " + std::to_string(at);
  SCOPED_TRACE(where);
  auto context = open_context(settings_for(dir), io);
  if (context) {
    PatternState state(kWeights), untouched(kWeights), expected(kWeights);
    state.clear();
    untouched.clear();
    EXPECT_TRUE(state.enroll(**context));
    std::string note;
    auto restored = (*context)->restore(DLCKPT_LATEST, &note);
    if (restored) {
      expected.fill(*restored);
      EXPECT_TRUE(state == expected);
      if (*restored != 2) {
        EXPECT_NE(note, "") << "an older one was taken silently";
      }
    } else if (restored.error().code != Errc::kIo) {
      EXPECT_TRUE(state == untouched) << restored.error().text;
    }
  }
  context = Error{};
  std::filesystem::remove(dir + "/LEASE");  // where it could not be given up; this process lives on
  return io.fired();
}

TEST_P(CheckpointFaults, InEveryOperationOfARestore) {
  const TempDir dir;
  ASSERT_TRUE(save_pattern(dir.path(), 1, posix_io(), 3, kWeights));
  ASSERT_TRUE(save_pattern(dir.path(), 2, posix_io(), 3, kWeights));
  int at = 0;
  while (restore_with_fault(dir.path(), GetParam(), at)) {
    ++at;
    if (HasFailure()) break;
  }
  EXPECT_GT(at, 30);
  auto restored = restore_pattern(dir.path(), nullptr, posix_io(), kWeights);
  ASSERT_TRUE(restored);
  EXPECT_EQ(*restored, 2);
}

// Two ranks, one of which meets the fault. What the ranks are told is the same, and true.
TEST_P(CheckpointFaults, OnOneOfTwoRanks) {
  const Fault fault = GetParam();
  for (int victim = 0; victim < 2; ++victim) {
    for (int at = victim; at < 63; at += 10) {
      const TempDir dir;
      ASSERT_TRUE(save_pattern(dir.path(), 1, posix_io(), 3, 1000));
      std::vector<Status> saved(2, Error{Errc::kIo, "not opened"});
      const std::string where =
          std::string(fault.name) + " at " + std::to_string(at) + " on rank " + std::to_string(victim);
      SCOPED_TRACE(where);
      std::vector<std::unique_ptr<FaultyIo>> ios;
      for (int rank = 0; rank < 2; ++rank)
        ios.push_back(std::make_unique<FaultyIo>(fault.mode, rank == victim ? at : INT32_MAX, fault.error));
      run_ranks(2, [&](int rank) {
        Settings settings = settings_for(dir.path(), rank, 2);
        settings.timeout_s = 0.1;
        auto context = open_context(settings, *ios[static_cast<size_t>(rank)]);
        if (!context) return;
        PatternState state(1000);
        state.fill(2);
        ASSERT_TRUE(state.enroll(**context));
        saved[static_cast<size_t>(rank)] = (*context)->save(2);
      });
      std::filesystem::remove(dir.path() + "/LEASE");
      auto names = scan_checkpoints(posix_io(), dir.path());
      ASSERT_TRUE(names && !names->empty());
      for (const CheckpointName& name : *names) EXPECT_TRUE(verify_checkpoint(posix_io(), dir.path(), name));
      // Whoever was told "saved" was told the truth.
      if (saved[0] || saved[1]) {
        EXPECT_EQ(names->front().step, 2);
      }
      auto restored = restore_pattern(dir.path(), nullptr, posix_io(), 1000);
      ASSERT_TRUE(restored) << restored.error().text;
      if (HasFailure()) return;
    }
  }
}

TEST(CheckpointPlainFileSystem, WithoutHardLinksAndReservationAllWorksToo) {
  const TempDir dir;
  PlainIo io;
  for (int64_t step = 1; step <= 3; ++step) {
    auto saved = save_pattern(dir.path(), step, io, 2, kWeights);
    ASSERT_TRUE(saved) << saved.error().text;
  }
  auto holder = Lease::acquire(io, dir.path(), "holder", "", 60);
  ASSERT_TRUE(holder) << holder.error().text;
  auto second = Lease::acquire(io, dir.path(), "second", "", 60);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kBusy);
  holder->release();
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    auto dead = Lease::acquire(io, dir.path(), "the dead", "", 60);
    _exit(dead ? 0 : 1);  // without giving it up
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(Lease::acquire(io, dir.path(), "heir", "", 60));
  auto restored = restore_pattern(dir.path(), nullptr, io, kWeights);
  ASSERT_TRUE(restored);
  EXPECT_EQ(*restored, 3);
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointFaults, testing::ValuesIn(kFaults),
                         [](const testing::TestParamInfo<Fault>& fault) { return fault.param.name; });

}  // namespace
}  // namespace dl::ckpt::test
