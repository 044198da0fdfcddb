// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Keeps this thread's core busy for so long without touching memory: a forward and backward pass to the memory bus.
inline void compute(double seconds) {
  const auto begin = Clock::now();
  volatile double x = 1.0;
  while (seconds_since(begin) < seconds)
    for (int i = 0; i < 1000; ++i) x = x * 1.0000001;
}

}  // namespace bench
