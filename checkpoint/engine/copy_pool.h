// SPDX-License-Identifier: Apache-2.0
// A few threads that do the same piece of work together with the calling thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "checkpoint/store/quiet_thread.h"

namespace dl::ckpt {

class CopyPool {
 public:
  // `threads` includes the caller of run() and is at least 1. There are fewer if the system allows no more.
  explicit CopyPool(int threads);
  ~CopyPool();
  CopyPool(const CopyPool&) = delete;
  CopyPool& operator=(const CopyPool&) = delete;

  // Calls work() on every thread at once and returns when all have returned. work must not throw. One call at a time.
  void run(const std::function<void()>& work);
  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

 private:
  void help();
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  uint64_t round_ = 0;
  int running_ = 0;
  bool end_ = false;
  std::vector<QuietThread> helpers_;
};

// The number of cores that this process may use, at most `limit`.
int usable_cores(int limit);

}  // namespace dl::ckpt
