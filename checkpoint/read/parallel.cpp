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

size_t worker_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return static_cast<size_t>(std::clamp(cores, 1, 16));
}

Status for_each_parallel(size_t count, size_t workers, const std::function<Status(size_t, size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status outcome;
  const auto run = [&](size_t worker) {
    for (;;) {
      const size_t index = next.fetch_add(1);
      if (index >= count) return;
      Status done;
      try {
        done = work(index, worker);
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
  std::vector<QuietThread> threads;
  for (size_t worker = 1; worker < std::min(workers, count); ++worker) {
    auto thread = QuietThread::start([&run, worker] { run(worker); });
    if (!thread) break;  // fewer threads will do
    threads.push_back(*std::move(thread));
  }
  run(0);
  for (QuietThread& thread : threads) thread.join();
  return outcome;
}

}  // namespace dl::ckpt
