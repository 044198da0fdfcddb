// SPDX-License-Identifier: Apache-2.0
// WriteQueue over io_uring. One thread waits for completed writes; there is no thread for each write.
#include "config.h"

#include "checkpoint/engine/write_queue.h"

#ifdef HAVE_LIBURING
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "checkpoint/store/quiet_thread.h"
#endif

namespace dl::ckpt {

#ifdef HAVE_LIBURING
namespace {

class UringQueue final : public WriteQueue {
 public:
  explicit UringQueue(unsigned depth) : depth_(depth) {}
  // False if the kernel does not have io_uring, a container's rules forbid it, or no thread can be started.
  bool start() {
    if (io_uring_queue_init(depth_ + 1, &ring_, 0) != 0) return false;
    ready_ = true;
    auto reaper = QuietThread::start([this] { reap(); });
    if (!reaper) return false;
    reaper_ = *std::move(reaper);
    return true;
  }
  ~UringQueue() override {
    if (reaper_.running()) {
      if (prepare(nullptr)) push();
      reaper_.join();
    }
    if (ready_) io_uring_queue_exit(&ring_);
  }

  void submit(DirectOutput& file, const void* data, size_t size, uint64_t at, std::function<void()> done) override {
    auto write = std::make_unique<Write>(Write{&file, data, size, at, std::move(done)});
    bool prepared = false;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return open_ < depth_; });
      ++open_;
      prepared = first_ && prepare(write.get());
    }
    // An earlier write has failed, or (never observed) the ring has less room than `depth_`.
    if (!prepared) return complete(*write, 0);
    static_cast<void>(write.release());  // from here on the reaper owns it
    push();
  }

 private:
  // nullptr tells the reaper to end. Only one thread at a time uses the submitting side of the ring.
  bool prepare(Write* write) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (!entry) return false;
    if (write) {
      io_uring_prep_write(entry, write->file->descriptor(), write->data, static_cast<unsigned>(write->size), write->at);
    } else {
      io_uring_prep_nop(entry);
    }
    io_uring_sqe_set_data(entry, write);
    return true;
  }
  void push() {
    int rc = 0;
    do {
      rc = io_uring_submit(&ring_);
    } while (rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
  }

  void reap() {
    for (;;) {
      io_uring_cqe* event = nullptr;
      const int rc = io_uring_wait_cqe(&ring_, &event);
      if (rc < 0 || !event) continue;  // EINTR
      const std::unique_ptr<Write> write(static_cast<Write*>(io_uring_cqe_get_data(event)));
      const int result = event->res;
      io_uring_cqe_seen(&ring_, event);
      if (!write) return;
      // The pointer came through the kernel. Its object was written before submit() released the mutex, which
      // complete() takes first, so this thread sees it whole. complete() also writes what io_uring left over or
      // refused.
      complete(*write, static_cast<size_t>(std::max(result, 0)));
    }
  }

  const unsigned depth_;
  io_uring ring_{};
  bool ready_ = false;
  QuietThread reaper_;
};

}  // namespace

std::unique_ptr<WriteQueue> make_uring_queue(unsigned depth) {
  auto queue = std::make_unique<UringQueue>(depth);
  if (!queue->start()) return nullptr;
  return queue;
}
#else
std::unique_ptr<WriteQueue> make_uring_queue(unsigned /*depth*/) {
  return nullptr;
}
#endif

}  // namespace dl::ckpt
