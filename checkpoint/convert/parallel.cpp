// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/convert/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

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
  std::vector<std::thread> threads;
  for (size_t worker = 1; worker < std::min(workers, count); ++worker) {
    try {
      threads.emplace_back(run, worker);
    } catch (const std::system_error&) {
      break;  // fewer threads do it too
    }
  }
  run(0);
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

}  // namespace dl::ckpt
