// SPDX-License-Identifier: Apache-2.0
// A background thread that does one task at a time. A task may have a second part (`following`), for which wait() does
// not wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "checkpoint/store/quiet_thread.h"

namespace dl::ckpt {

class Worker {
 public:
  Worker() = default;
  // Waits for the task and its second part. Must not be called in a child of fork(), where the thread does not exist.
  ~Worker() {
    if (!thread_.running()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      end_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Precondition: not busy. Waits for the second part of the former task. Neither part may throw. kIo if no thread can
  // be started; then neither part runs.
  Status run(std::function<void()> task, std::function<void()> following = nullptr) {
    if (!thread_.running()) {
      DL_TRY_ASSIGN(thread_, QuietThread::start([this] { work(); }));
    }
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !follows_; });
      task_ = std::move(task);
      following_ = std::move(following);
      busy_ = true;
    }
    changed_.notify_all();
    return {};
  }
  // True while the first part of a task runs.
  bool busy() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return busy_;
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
  }
  // False if it is still busy after this time.
  bool wait_for(double seconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return !busy_; });
  }

 private:
  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return end_ || busy_; });
      if (!busy_) return;
      std::function<void()> task = std::move(task_);
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      task = std::move(following_);
      following_ = nullptr;
      busy_ = false;
      follows_ = task != nullptr;
      changed_.notify_all();
      if (!follows_) continue;
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      follows_ = false;
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_, following_;
  bool busy_ = false, follows_ = false, end_ = false;
  QuietThread thread_;
};

}  // namespace dl::ckpt
