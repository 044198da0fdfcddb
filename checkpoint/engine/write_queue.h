// SPDX-License-Identifier: Apache-2.0
// Keeps several writes in flight. There are three kinds: one that writes in the caller's thread, one write after
// another (for tests, which count operations); threads that call pwrite; and io_uring.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "checkpoint/store/direct_output.h"

namespace dl::ckpt {

class WriteQueue {
 public:
  WriteQueue() = default;
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;
  virtual ~WriteQueue() = default;

  // Takes a write (address, size and offset are multiples of 4096); may wait if many are in flight. `done` is called
  // once, from any thread, when the memory is no longer needed, also if the write failed or was dropped because another
  // failed. Only one thread at a time may call this.
  virtual void submit(DirectOutput& file, const void* data, size_t size, uint64_t at, std::function<void()> done) = 0;
  // Waits until no write is in flight; returns the first failure since the last call.
  Status finish();

 protected:
  struct Write {
    DirectOutput* file;
    const void* data;
    size_t size;
    uint64_t at;
    std::function<void()> done;
  };
  // Ends a write that was counted in open_. The bytes after the first `written` ones are written with pwrite, whose
  // error has the right message, unless another write has failed.
  void complete(const Write& write, size_t written);

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t open_ = 0;  // writes in flight
  Status first_;     // the first failure since the last finish()
};

// The fastest kind for this Io: io_uring if it is compiled in, the kernel allows it and DL_CHECKPOINT_URING is not 0;
// otherwise `threads` threads; the caller's thread if the Io requires operations one by one.
std::unique_ptr<WriteQueue> make_write_queue(Io& io, int threads);
std::unique_ptr<WriteQueue> make_thread_queue(int threads);  // 0: writes in the caller's thread
// nullptr if io_uring is not available. At most `depth` writes are in flight.
std::unique_ptr<WriteQueue> make_uring_queue(unsigned depth);

}  // namespace dl::ckpt
