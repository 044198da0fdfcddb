// SPDX-License-Identifier: Apache-2.0
// Memory that the host does not read and write through its pointers: where it lies, and copies from and to it.
//
// Devices are those of the CUDA driver (cuda_driver.h). Managed memory is copied by the driver too: the host may touch
// it only while the device is idle on some systems, and would fetch it page by page on the others. In a process without
// a driver all memory is host memory, and nothing here costs more than a look for one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/result.h"

namespace dl::ckpt {

struct MemoryPlace {
  enum class Kind : char { kHost, kManaged, kDevice };
  Kind kind = Kind::kHost;
  int device = -1;          // as the driver counts in this process
  void* context = nullptr;  // to which it belongs; nullptr: to none, and the device's primary one reaches it
  // Only then may the host use the pointer: memcpy, checksums, system calls.
  bool on_host() const { return kind == Kind::kHost; }
};

// What the driver says of a pointer, also into the middle of what was allocated. Host memory is what no driver of this
// process knows, and what it has pinned. kIo: the driver fails; kUnsupported: device memory, but the driver is too old.
Result<MemoryPlace> place_of(const void* data);

// Waits for all work that the program has queued on the devices of these places, on any stream. The calling thread's
// current context is the same afterwards. kIo: also where such work has failed.
Status wait_for_queued_work(const std::vector<MemoryPlace>& places);

// Copies under way, of one thread: on streams of its own, made when they are needed and gone with it. (Kept no longer,
// since a program may destroy its contexts between two saves.)
class DeviceCopies {
 public:
  DeviceCopies() noexcept;
  ~DeviceCopies();  // waits
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  // `rows` rows of `width` bytes; on either side the next begins so many bytes after the one before, which must be at
  // least the width where there are several rows, and at most kMaxPitch. They are done, and memory of either side may
  // be used again, after wait(). Copies of one object to one context are done in the order in which they were started.
  static constexpr int64_t kMaxPitch = INT32_MAX;  // what all GPUs allow
  struct Rows {
    uint64_t width = 0, rows = 1;
    int64_t device_pitch = 0, host_pitch = 0;
  };
  Status to_host(const MemoryPlace& place, const unsigned char* device, unsigned char* host, const Rows& rows);
  Status to_device(const MemoryPlace& place, unsigned char* device, const unsigned char* host, const Rows& rows);
  Status wait();

 private:
  struct Lane;
  Result<Lane*> lane_for(const MemoryPlace& place);
  Status copy(const MemoryPlace& place, unsigned char* device, unsigned char* host, const Rows& rows, bool to_host);
  std::vector<std::unique_ptr<Lane>> lanes_;  // one for each context
  Lane* current_ = nullptr;                   // whose context is the thread's current one
};

// Host memory that devices read and write directly. It must stay mapped until this is gone.
class PinnedMemory {
 public:
  // Takes about as long as writing to all of it once. nullptr where it cannot be had; copies work all the same.
  static std::unique_ptr<PinnedMemory> pin(const MemoryPlace& place, void* memory, uint64_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

 private:
  PinnedMemory(const MemoryPlace& place, void* memory) : place_(place), memory_(memory) {}
  MemoryPlace place_;
  void* memory_;
};

}  // namespace dl::ckpt
