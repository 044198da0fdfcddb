// SPDX-License-Identifier: Apache-2.0
// Tries again what may pass, after pauses that grow.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "launcher/data/fault.h"

namespace dl::data {

struct Patience {
  unsigned tries = 6;          // in all; at least 1
  int64_t first_ms = 1000;     // the first pause; each is twice the one before, and up to half longer by chance
  int64_t longest_ms = 30000;  // pauses do not grow beyond this
};

// Sleeps, and returns early once `stop` is set.
inline void pause_for(int64_t ms, const std::atomic<bool>& stop) {
  constexpr int64_t kStepMs = 50;
  for (const int64_t until = monotonic_ms() + ms; !stop && monotonic_ms() < until;)
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(kStepMs, until - monotonic_ms() + 1)));
}

// Calls work() until it succeeds, fails with an error that will not pass (may_pass()), or was tried often enough.
// progressed(): whether the last try got on at all; then the tries begin again, so that a transfer that is cut every
// few seconds gets through.
template <typename Job, typename Progressed>
auto try_again(const Patience& patience, const std::atomic<bool>& stop, Job&& work, Progressed&& progressed)
    -> decltype(work()) {
  thread_local std::minstd_rand random(std::random_device{}());
  int64_t pause_ms = patience.first_ms;
  for (unsigned tried = 1;; ++tried) {
    auto result = work();
    if (result || stop || !may_pass(result.error())) return result;
    if (progressed()) tried = 0, pause_ms = patience.first_ms;
    if (tried >= patience.tries) return result;
    pause_for(pause_ms + static_cast<int64_t>(random() % static_cast<uint64_t>(pause_ms / 2 + 1)), stop);
    pause_ms = std::min(2 * pause_ms, patience.longest_ms);
  }
}

template <typename Job>
auto try_again(const Patience& patience, const std::atomic<bool>& stop, Job&& work) -> decltype(work()) {
  return try_again(patience, stop, work, [] { return false; });
}

}  // namespace dl::data
