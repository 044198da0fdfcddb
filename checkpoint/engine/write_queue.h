// SPDX-License-Identifier: Apache-2.0
// Keeps several writes in flight. There are three kinds: one after another in the caller's thread (for tests, which
// count operations), threads that call pwrite, and io_uring.
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

  // Takes a write (everything a multiple of 4096); may wait while many are under way. `done` is called once, from any
  // thread, when the memory is no longer needed, also where the write failed or was given up because another had.
  // Called by one thread at a time.
  virtual void submit(DirectOutput& file, const void* data, size_t size, uint64_t at, std::function<void()> done) = 0;
  // Waits until nothing is under way; the first failure since the last call of this.
  Status finish();

 protected:
  struct Write {
    DirectOutput* file;
    const void* data;
    size_t size;
    uint64_t at;
    std::function<void()> done;
  };
  // Ends a write that was counted in open_: what is left behind the first `written` bytes is written in the plain way,
  // which also finds the right words for an error, unless another write has failed.
  void complete(const Write& write, size_t written);

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t open_ = 0;  // writes under way
  Status first_;     // the first failure
};

// The fastest kind for this Io: io_uring if it is compiled in, the kernel allows it and DL_CHECKPOINT_URING is not 0;
// else `threads` threads; the caller's thread where the Io requires operations one by one.
std::unique_ptr<WriteQueue> make_write_queue(Io& io, int threads);
std::unique_ptr<WriteQueue> make_thread_queue(int threads);  // 0: in the caller's thread
// nullptr where it cannot be had. `depth` writes at most are under way.
std::unique_ptr<WriteQueue> make_uring_queue(unsigned depth);

}  // namespace dl::ckpt
