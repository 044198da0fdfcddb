// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/staging.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>

#include "common/base/parse.h"

namespace dl::ckpt {

Result<std::unique_ptr<Staging>> Staging::make(uint64_t buffer_bytes, uint64_t buffers) {
  const uint64_t bytes = buffer_bytes * buffers;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return Error{Errc::kInternal,
                 "no " + std::to_string(bytes >> 20) +
                     " MiB of staging memory: out of memory; ask for more (--mem), or set DL_CHECKPOINT_MEMORY to less",
                 ENOMEM};
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  // A child of the program does not need a copy of this memory.
  ::madvise(memory, bytes, MADV_DONTFORK);
  return std::unique_ptr<Staging>(new Staging(static_cast<unsigned char*>(memory), buffer_bytes, buffers));
}

Staging::Staging(unsigned char* memory, uint64_t buffer_bytes, uint64_t count)
    : memory_(memory), buffer_bytes_(buffer_bytes), count_(count) {
  reset();
}

Staging::~Staging() {
  pinned_.reset();
  ::munmap(memory_, bytes());
}

unsigned char* Staging::acquire() {
  std::unique_lock<std::mutex> lock(mutex_);
  freed_.wait(lock, [this] { return closed_ || !free_.empty(); });
  if (closed_) return nullptr;
  unsigned char* buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void Staging::release(unsigned char* buffer) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(buffer);
  }
  freed_.notify_one();
}

void Staging::close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  freed_.notify_all();
}

void Staging::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = false;
  free_.clear();
  for (uint64_t i = count_; i-- > 0;) free_.push_back(memory_ + i * buffer_bytes_);
}

void Staging::prefault() noexcept {
#ifdef MADV_POPULATE_WRITE
  // This does not change the pages' content, so copying may go on meanwhile. It is done in pieces, so that the kernel
  // can be interrupted.
  for (uint64_t at = 0; at < bytes(); at += buffer_bytes_)
    if (::madvise(memory_ + at, buffer_bytes_, MADV_POPULATE_WRITE) != 0) return;
#endif
}

void Staging::pin(const MemoryPlace& place) {
  const std::lock_guard<std::mutex> lock(pin_mutex_);
  if (pin_tried_) return;
  pin_tried_ = true;
  try {
    pinned_ = PinnedMemory::pin(place, memory_, bytes());
  } catch (const std::bad_alloc&) {  // copies also work without pinning
  }
}

}  // namespace dl::ckpt
