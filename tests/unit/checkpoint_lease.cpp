// SPDX-License-Identifier: Apache-2.0
// The lease: one holder at a time, taken over from the dead, the silent and one's own former self, never from the
// living.
#include "checkpoint/store/lease.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "checkpoint/include/dlckpt.h"
#include "checkpoint/include/dlckpt_lease.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

Result<Lease> acquire(const std::string& dir, const std::string& owner = "job 1", const std::string& job_id = "") {
  return Lease::acquire(posix_io(), dir, owner, job_id, 60);
}

// Takes the lease in a child that then dies without giving it up.
void acquire_and_die(const std::string& dir, const std::string& job_id = "") {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    auto lease = acquire(dir, "the dead", job_id);
    _exit(lease ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_EQ(status, 0);
}

void edit_lease(const std::string& dir, const std::string& from, const std::string& to) {
  std::string text = read_file(dir + "/LEASE");
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << text;
  struct stat st {};
  ASSERT_EQ(stat((dir + "/LEASE").c_str(), &st), 0);
  write_file(dir + "/LEASE", text.replace(at, from.size(), to));
  const timespec times[] = {st.st_atim, st.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, (dir + "/LEASE").c_str(), times, 0), 0);
}

void make_old(const std::string& path, int seconds) {
  timespec times[2];
  ASSERT_EQ(clock_gettime(CLOCK_REALTIME, &times[0]), 0);
  times[0].tv_sec -= seconds;
  times[1] = times[0];
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(CheckpointLease, IsGivenUpByReleaseAndLeavesNothing) {
  const TempDir dir;
  {
    auto lease = acquire(dir.path());
    ASSERT_TRUE(lease) << lease.error().text;
    EXPECT_TRUE(check_lease(posix_io(), dir.path(), lease->token()));
    EXPECT_TRUE(lease->renew());
    EXPECT_TRUE(check_lease(posix_io(), dir.path(), lease->token()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  EXPECT_TRUE(acquire(dir.path()));
}

TEST(CheckpointLease, TheLivingAreBusyAndNamed) {
  const TempDir dir;
  auto lease = acquire(dir.path(), "job 77");
  ASSERT_TRUE(lease);
  auto second = acquire(dir.path(), "job 78");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kBusy);
  EXPECT_NE(second.error().text.find("job 77"), std::string::npos) << second.error().text;
  EXPECT_NE(second.error().text.find("this process itself"), std::string::npos) << second.error().text;
  // The same job in the same start is another, too.
  auto same = acquire(dir.path(), "job 77", "77");
  EXPECT_FALSE(same);
  EXPECT_TRUE(lease->renew());
}

TEST(CheckpointLease, OfADeadProcessIsTakenOver) {
  const TempDir dir;
  for (int i = 0; i < 3; ++i) {
    acquire_and_die(dir.path());
    auto lease = acquire(dir.path());
    ASSERT_TRUE(lease) << lease.error().text;
    EXPECT_TRUE(leftovers(dir.path()).empty()) << leftovers(dir.path()).front();
  }
}

TEST(CheckpointLease, ARecycledProcessIdIsNotTheHolder) {
  const TempDir dir;
  acquire_and_die(dir.path());
  // As if the dead one's number now belonged to this process, which started at another time.
  const auto record = read_lease(posix_io(), dir.path());
  ASSERT_TRUE(record);
  edit_lease(dir.path(), "\"pid\": " + std::to_string(record->pid), "\"pid\": " + std::to_string(getpid()));
  EXPECT_TRUE(acquire(dir.path()));
}

TEST(CheckpointLease, OfAnotherHostIsHeldUntilItIsSilentForItsTime) {
  const TempDir dir;
  acquire_and_die(dir.path());
  const auto record = read_lease(posix_io(), dir.path());
  ASSERT_TRUE(record);
  edit_lease(dir.path(), "\"host\": \"" + record->host + "\"", "\"host\": \"elsewhere\"");
  auto lease = acquire(dir.path());
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code, Errc::kBusy);
  EXPECT_NE(lease.error().text.find("elsewhere"), std::string::npos);
  make_old(dir.path() + "/LEASE", 50);
  EXPECT_FALSE(acquire(dir.path()));
  make_old(dir.path() + "/LEASE", 61);
  EXPECT_TRUE(acquire(dir.path()));
}

TEST(CheckpointLease, TheSameJobInALaterStartTakesItAtOnce) {
  const TempDir dir;
  acquire_and_die(dir.path(), "12");
  const auto record = read_lease(posix_io(), dir.path());
  ASSERT_TRUE(record);
  edit_lease(dir.path(), "\"host\": \"" + record->host + "\"", "\"host\": \"elsewhere\"");
  EXPECT_FALSE(acquire(dir.path(), "job 12", "12"));
  setenv("SLURM_RESTART_COUNT", "1", 1);
  EXPECT_FALSE(acquire(dir.path(), "job 13", "13"));
  {
    auto lease = acquire(dir.path(), "job 12", "12");
    EXPECT_TRUE(lease);
    if (lease) {
      EXPECT_EQ(read_lease(posix_io(), dir.path())->restart, 1);
    }
  }
  unsetenv("SLURM_RESTART_COUNT");
}

TEST(CheckpointLease, LosingItIsNoticedAtRenewAndDoesNotHarmTheNewHolder) {
  const TempDir dir;
  auto lost = acquire(dir.path(), "the slow");
  ASSERT_TRUE(lost);
  make_old(dir.path() + "/LEASE", 61);
  auto lease = acquire(dir.path(), "the next");
  ASSERT_TRUE(lease) << lease.error().text;
  auto renewed = lost->renew();
  ASSERT_FALSE(renewed);
  EXPECT_EQ(renewed.error().code, Errc::kBusy);
  EXPECT_NE(renewed.error().text.find("the next"), std::string::npos);
  lost->release();
  EXPECT_TRUE(lease->renew());
}

TEST(CheckpointLease, AContextThatLostItDoesNotCommit) {
  const TempDir dir;
  auto slow = open_context(settings_for(dir.path()));
  ASSERT_TRUE(slow);
  make_old(dir.path() + "/LEASE", 3601);
  auto next = open_context(settings_for(dir.path()));
  ASSERT_TRUE(next) << next.error().text;
  auto saved = (*slow)->save(1);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Errc::kBusy);
  EXPECT_TRUE((*next)->save(2));
  EXPECT_EQ(scan_checkpoints(posix_io(), dir.path())->size(), 1U);
}

TEST(CheckpointLease, WhoeverRemovesTheDirectoryIsNotTakenForAnotherJob) {
  const TempDir parent;
  const std::string dir = parent.path() + "/ckpt";
  auto context = open_context(settings_for(dir));
  ASSERT_TRUE(context) << context.error().text;
  ASSERT_TRUE((*context)->save(1, DLCKPT_SYNC));
  std::filesystem::rename(dir, parent.path() + "/away");
  auto saved = (*context)->save(2, DLCKPT_SYNC);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Errc::kNotFound);
  EXPECT_NE(saved.error().text.find("removed or renamed"), std::string::npos) << saved.error().text;
  std::filesystem::create_directory(dir);
  saved = (*context)->save(3, DLCKPT_SYNC);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Errc::kBusy);
  EXPECT_NE(saved.error().text.find("removed its file LEASE"), std::string::npos) << saved.error().text;
  std::filesystem::remove(dir);
  std::filesystem::rename(parent.path() + "/away", dir);
  saved = (*context)->save(4, DLCKPT_SYNC);
  EXPECT_TRUE(saved) << saved.error().text;
}

TEST(CheckpointLease, TheOneOfDlrunIsUsedAndNotReleased) {
  const TempDir dir;
  auto lease = acquire(dir.path(), "dlrun");
  ASSERT_TRUE(lease);
  EXPECT_FALSE(open_context(settings_for(dir.path())));
  Settings settings = settings_for(dir.path());
  settings.lease_token = lease->token();
  {
    auto context = open_context(settings);
    ASSERT_TRUE(context) << context.error().text;
    EXPECT_TRUE((*context)->save(1));
  }
  EXPECT_TRUE(lease->renew());
  settings.lease_token = "stale";
  auto refused = open_context(settings);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kBusy);
}

// The lease is the run's there, and would let both in.
TEST(CheckpointLease, UnderDlrunAProcessHasADirectoryOpenOnceAsOneRank) {
  const TempDir dir;
  auto lease = acquire(dir.path(), "dlrun");
  ASSERT_TRUE(lease);
  Settings settings = settings_for(dir.path());
  settings.lease_token = lease->token();
  auto first = open_context(settings);
  ASSERT_TRUE(first) << first.error().text;
  settings.dir += "/.";
  auto second = open_context(settings);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kBusy);
  EXPECT_NE(second.error().text.find("is open in this process already, as rank 0"), std::string::npos)
      << second.error().text;
  first->reset();
  EXPECT_TRUE(open_context(settings));
}

TEST(CheckpointLease, RubbishInTheFileIsNoHolderForEver) {
  const TempDir dir;
  for (const std::string& text : {std::string(), std::string("{"), std::string("{\"owner\": 3}"),
                                  std::string(100000, '['), std::string("{\"token\": \"../../x\"}")}) {
    write_file(dir.path() + "/LEASE", text);
    auto lease = acquire(dir.path());
    ASSERT_FALSE(lease);
    EXPECT_EQ(lease.error().code, Errc::kBusy);
    make_old(dir.path() + "/LEASE", 61);
    EXPECT_TRUE(acquire(dir.path()));
  }
}

TEST(CheckpointLease, OnlyOneOfManyWinsTheRace) {
  struct Shared {
    std::atomic<int> go, inside, most, won;
  };
  auto* shared =
      static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
#if defined(__SANITIZE_ADDRESS__)
  constexpr int kRounds = 12;  // it makes a fork take many times as long
#else
  constexpr int kRounds = 60;
#endif
  for (int round = 0; round < kRounds; ++round) {
    const TempDir dir;
    if (round % 2) acquire_and_die(dir.path());  // now they race for taking over
    shared->go = shared->inside = shared->most = shared->won = 0;
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        while (!shared->go.load()) {
        }
        auto lease = acquire(dir.path(), "racer " + std::to_string(i));
        if (lease) {
          ++shared->won;
          const int inside = ++shared->inside;
          if (inside > shared->most.load()) shared->most = inside;
          usleep(20000);
          --shared->inside;
          if (!lease->renew()) _exit(2);  // lost, though alive
          lease->release();
        }
        _exit(0);
      }
      children.push_back(pid);
    }
    shared->go = 1;
    for (const pid_t pid : children) {
      int status = 0;
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(shared->most.load(), 1) << "round " << round;
    EXPECT_GE(shared->won.load(), 1);
  }
  munmap(shared, sizeof(Shared));
}

TEST(CheckpointLease, TheCInterface) {
  const TempDir dir;
  dlckpt_lease *lease = nullptr, *second = nullptr;
  ASSERT_EQ(dlckpt_lease_acquire(dir.path().c_str(), "job 5", "5", &lease), DLCKPT_OK) << dlckpt_open_error();
  EXPECT_EQ(strlen(dlckpt_lease_token(lease)), 32U);
  EXPECT_EQ(dlckpt_lease_renew(lease), DLCKPT_OK);
  EXPECT_EQ(dlckpt_lease_acquire(dir.path().c_str(), "job 6", "6", &second), DLCKPT_E_BUSY);
  EXPECT_EQ(second, nullptr);
  EXPECT_NE(std::string(dlckpt_open_error()).find("job 5"), std::string::npos);
  dlckpt_lease_release(lease);
  EXPECT_EQ(dlckpt_lease_acquire(dir.path().c_str(), "job 6", nullptr, &second), DLCKPT_OK);
  dlckpt_lease_release(second);
  dlckpt_lease_release(nullptr);
  EXPECT_EQ(dlckpt_lease_acquire("/nowhere/at/all", "job 6", nullptr, &second), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(dlckpt_lease_acquire(nullptr, "job 6", nullptr, &second), DLCKPT_E_INVALID);
  EXPECT_EQ(dlckpt_lease_acquire("", "job 6", nullptr, &second), DLCKPT_E_INVALID);
}

}  // namespace
}  // namespace dl::ckpt::test
