// SPDX-License-Identifier: Apache-2.0
// Memory that the host cannot access through its pointers: finds out on which device it lies, and copies from and to
// it.
//
// Devices are those of the CUDA driver (cuda_driver.h). Managed memory is copied by the driver too: the host may touch
// it only while the device is idle on some systems, and would fetch it page by page on the others. In a process without
// a driver all memory is host memory, and every function here only looks whether there is a driver.
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
  // If false, the host must not use the pointer: no memcpy, checksum or system call.
  bool on_host() const { return kind == Kind::kHost; }
};

// The place of the memory that a pointer points to, also into the middle of an allocation. Memory that no driver of
// this process knows, or that a driver has pinned, is host memory. kIo: the driver fails; kUnsupported: device memory,
// but the driver is too old.
Result<MemoryPlace> place_of(const void* data);

// Waits for all work that the program has queued on the devices of these places, on any stream. The calling thread's
// current context is the same afterwards. kIo: also where such work has failed.
Status wait_for_queued_work(const std::vector<MemoryPlace>& places);

// The copies of one thread that are under way. It makes its own streams when they are needed and destroys them with
// itself; they are not kept longer, since a program may destroy its contexts between two saves.
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
  // Pins the memory, which takes about as long as writing to all of it once. nullptr if it cannot be pinned; copies
  // work without it.
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
