// SPDX-License-Identifier: Apache-2.0
// The two clocks of this project, in milliseconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace dl {

// Time since an arbitrary moment; it never goes back. All processes of a machine see the same value, until the machine
// is booted again.
inline int64_t monotonic_ms() {
  using std::chrono::milliseconds;
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Time since 1970-01-01 UTC; it goes back when somebody sets the clock back.
inline int64_t unix_ms() {
  using std::chrono::milliseconds;
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace dl
