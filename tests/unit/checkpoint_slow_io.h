// SPDX-License-Identifier: Apache-2.0
// A disk that keeps the program waiting, for tests of what may go on meanwhile.
#pragma once

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "tests/unit/checkpoint_faulty_io.h"

namespace dl::ckpt::test {

// A disk that stands still when told to, and on which the n-th fsync fails.
class SlowIo final : public FaultyIo {
 public:
  SlowIo() : FaultyIo(kErrno, INT32_MAX) {}
  void hold() { set(true); }
  void let_go() { set(false); }
  void fail_fsync() { fail_.store(true); }
  int64_t pwrite(int fd, const void* buffer, size_t size, uint64_t at) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !held_; });
    lock.unlock();
    return FaultyIo::pwrite(fd, buffer, size, at);
  }
  // As hold() and let_go(), for the removal of files of retired checkpoints.
  void hold_removals(bool held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    removals_held_ = held;
    changed_.notify_all();
  }
  int unlink(const std::string& path) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return !removals_held_ || path.find("retired") == std::string::npos; });
    lock.unlock();
    return FaultyIo::unlink(path);
  }
  int fsync(int fd) override { return fail_.exchange(false) ? -EIO : FaultyIo::fsync(fd); }

 private:
  void set(bool held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, removals_held_ = false;
  std::atomic<bool> fail_{false};
};

}  // namespace dl::ckpt::test
