// SPDX-License-Identifier: Apache-2.0
// Staging memory: the bytes of a save wait here until they are on disk. It is one mapping, kept from save to save, and
// cut into buffers of one segment each. If all buffers are in use, acquire() waits until a write has finished.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "checkpoint/device/device_memory.h"
#include "checkpoint/store/direct_file.h"  // for kDirectAlignment
#include "common/base/result.h"

namespace dl::ckpt {

inline uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

class Staging {
 public:
  // Gets `buffers` buffers of `buffer_bytes` each, a multiple of 4096; with huge pages if possible. kInternal with
  // ENOMEM.
  static Result<std::unique_ptr<Staging>> make(uint64_t buffer_bytes, uint64_t buffers);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Waits for a free buffer. nullptr after close().
  unsigned char* acquire();
  void release(unsigned char* buffer);
  // Ends all waits, because the save has failed.
  void close();
  // Makes all buffers free and opens the memory again. No buffer may be in use.
  void reset();
  // Touches all pages, so that the first save does not wait for the kernel to clear them. It may run in another thread
  // beside everything else.
  void prefault() noexcept;
  // Prepares copies from devices: the first call pins the memory if possible. Pinned memory is present, so prefault()
  // is not needed before. Any thread may call it; other callers wait until the first one is done.
  void pin(const MemoryPlace& place);

  uint64_t buffer_bytes() const { return buffer_bytes_; }
  uint64_t buffers() const { return count_; }
  uint64_t bytes() const { return buffer_bytes_ * count_; }

 private:
  Staging(unsigned char* memory, uint64_t buffer_bytes, uint64_t count);
  unsigned char* memory_;
  uint64_t buffer_bytes_, count_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<unsigned char*> free_;  // the last one is used next
  bool closed_ = false;
  std::mutex pin_mutex_;
  bool pin_tried_ = false;
  std::unique_ptr<PinnedMemory> pinned_;
};

}  // namespace dl::ckpt
