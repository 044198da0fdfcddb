// SPDX-License-Identifier: Apache-2.0
// Times of files as one number. Pure.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace dl::data {

constexpr int64_t kNsPerSecond = 1'000'000'000;

// When it was last changed, in nanoseconds since 1970.
inline int64_t mtime_ns_of(const struct stat& status) {
  return status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec;
}

}  // namespace dl::data
