// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/read/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "checkpoint/store/quiet_thread.h"

namespace dl::ckpt {

size_t useful_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return static_cast<size_t>(std::clamp(cores, 1, 16));
}

Status for_each_parallel(size_t count, size_t threads, const std::function<Status(size_t, size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status outcome;
  const auto run = [&](size_t thread) {
    for (;;) {
      const size_t index = next.fetch_add(1);
      if (index >= count) return;
      Status done;
      try {
        done = work(index, thread);
      } catch (const std::exception& error) {
        done = Error{Errc::kInternal, error.what()};
      }
      if (done) continue;
      next = count;
      const std::lock_guard<std::mutex> lock(mutex);
      if (outcome) outcome = std::move(done);
      return;
    }
  };
  std::vector<QuietThread> others;
  for (size_t thread = 1; thread < std::min(threads, count); ++thread) {
    auto other = QuietThread::start([&run, thread] { run(thread); });
    if (!other) break;  // fewer threads will do
    others.push_back(*std::move(other));
  }
  run(0);
  for (QuietThread& other : others) other.join();
  return outcome;
}

}  // namespace dl::ckpt
