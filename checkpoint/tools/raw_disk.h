// SPDX-License-Identifier: Apache-2.0
// Measures what disk and memory can do by themselves, as limits for dlckpt bench.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace dl::ckpt::tool {

constexpr uint64_t kRawChunk = uint64_t{8} << 20;  // bytes of one request

struct RawTime {
  double seconds = 0;
  bool direct = true;  // false: the file system has no O_DIRECT, so the page cache was used
};

// Writes a new file of `size` bytes (rounded down to whole chunks) from `data`: reserves the space, writes chunks with
// O_DIRECT in `depth` threads, and fsyncs. `data` is aligned to 4096.
Result<RawTime> raw_write(const std::string& path, const unsigned char* data, uint64_t size, size_t depth);
// Reads the file in the same way, into memory of its own.
Result<RawTime> raw_read(const std::string& path, uint64_t size, size_t depth);
// The time in which one thread copies `size` bytes.
double memcpy_seconds(unsigned char* to, const unsigned char* from, uint64_t size);
// Drops the files of a directory from the page cache, as far as they are on the disk.
void drop_cache(const std::string& directory);

}  // namespace dl::ckpt::tool
