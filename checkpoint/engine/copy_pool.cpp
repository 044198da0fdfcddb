// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/copy_pool.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace dl::ckpt {

CopyPool::CopyPool(int threads) {
  for (int i = 1; i < threads; ++i) {
    auto helper = QuietThread::start([this] { help(); });
    if (!helper) break;  // the system allows no more threads: fewer will do
    helpers_.push_back(*std::move(helper));
  }
}

CopyPool::~CopyPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    end_ = true;
  }
  changed_.notify_all();
  for (QuietThread& helper : helpers_) helper.join();
}

void CopyPool::run(const std::function<void()>& work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_ = &work;
    ++round_;
    running_ = static_cast<int>(helpers_.size());
  }
  changed_.notify_all();
  work();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });
}

void CopyPool::help() {
  uint64_t seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return end_ || round_ != seen; });
    if (end_) return;
    seen = round_;
    const std::function<void()>* work = work_;
    lock.unlock();
    (*work)();
    lock.lock();
    if (--running_ == 0) changed_.notify_all();
  }
}

int usable_cores(int limit) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::clamp(CPU_COUNT(&set), 1, limit);
}

}  // namespace dl::ckpt
