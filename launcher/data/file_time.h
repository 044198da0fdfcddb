// SPDX-License-Identifier: Apache-2.0
// Times of files as one number. Pure.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace dl::data {

constexpr int64_t kNsPerSecond = 1'000'000'000;

// Nanoseconds since 1970. Times beyond the years 1678 to 2262, which some file systems and servers tell, become the
// first or the last that can be said so. nanoseconds: from 0 to kNsPerSecond - 1.
inline int64_t ns_of(int64_t seconds, int64_t nanoseconds) {
  constexpr int64_t kMost = INT64_MAX / kNsPerSecond;
  if (seconds >= kMost) return INT64_MAX;
  if (seconds <= -kMost) return INT64_MIN;
  return seconds * kNsPerSecond + nanoseconds;
}

// When it was last changed.
inline int64_t mtime_ns_of(const struct stat& status) {
  return ns_of(status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

}  // namespace dl::data
