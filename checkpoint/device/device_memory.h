// SPDX-License-Identifier: Apache-2.0
// Memory that the host cannot access through its pointers: finds out on which device it lies, and copies from and to
// it.
//
// Devices are those of the CUDA driver (cuda_driver.h). The driver also copies managed memory: on some systems the host
// may touch it only while the device is idle, and on the others it would fetch it page by page. In a process without a
// driver all memory is host memory, and every function here only checks whether there is a driver.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/result.h"

namespace dl::ckpt {

struct MemoryPlace {
  enum class Kind : char { kHost, kManaged, kDevice };
  Kind kind = Kind::kHost;
  int device = -1;  // the driver's number of the device in this process
  // the context to which the memory belongs; nullptr: to none, then the device's primary context can access it
  void* context = nullptr;
  // If this is false, the host must not use the pointer: no memcpy, checksum or system call.
  bool on_host() const { return kind == Kind::kHost; }
};

// The place of the memory that a pointer points to; it may point into the middle of an allocation. Memory that no
// driver of this process knows, or that a driver has pinned, is host memory. kIo: the driver fails; kUnsupported: it is
// device memory, but the driver is too old.
Result<MemoryPlace> place_of(const void* data);

// Waits for all work that the program has queued on the devices of these places, on any stream. The calling thread's
// current context is the same afterwards. kIo, also if that work has failed, or if a thread is capturing a CUDA graph
// there, which ends that capture: so call it only in a call of the program, at a time that the program has chosen.
Status wait_for_queued_work(const std::vector<MemoryPlace>& places);

// The copies in flight of one thread. The object makes its streams when they are needed, and destroys them when it is
// destroyed. They are not kept longer, since a program may destroy its contexts between two saves.
class DeviceCopies {
 public:
  DeviceCopies() noexcept;
  ~DeviceCopies();  // waits
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  // Copies `rows` rows of `width` bytes; on either side each row begins the given number of bytes after the one before.
  // This number must be at least the width if there are several rows, and at most kMaxPitch. The copies are complete,
  // and memory of either side may be used again, after wait(). Copies of one object in one context are done in the
  // order in which they were started.
  static constexpr int64_t kMaxPitch = INT32_MAX;  // allowed by all GPUs
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
  Lane* current_ = nullptr;                   // the lane whose context is the thread's current one
};

// Host memory that devices read and write directly. It must stay mapped as long as this object lives.
class PinnedMemory {
 public:
  // Pins the memory, which takes about as long as writing to all of it once. nullptr if it cannot be pinned; copies
  // also work without pinning.
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
