// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/write_queue.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "checkpoint/store/direct_file.h"  // for kDirectAlignment
#include "checkpoint/store/out_of_memory.h"
#include "checkpoint/store/quiet_thread.h"

namespace dl::ckpt {
namespace {

constexpr unsigned kUringDepth = 16;

class ThreadQueue final : public WriteQueue {
 public:
  explicit ThreadQueue(int threads) {
    for (int i = 0; i < threads; ++i) {
      auto thread = QuietThread::start([this] { work(); });
      if (!thread) break;  // the system allows no more threads: fewer will do, even none
      threads_.push_back(*std::move(thread));
    }
  }
  ~ThreadQueue() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      end_ = true;
    }
    changed_.notify_all();
    threads_.clear();
  }

  void submit(DirectOutput& file, const void* data, size_t size, uint64_t at, std::function<void()> done) override {
    Write write{&file, data, size, at, std::move(done)};
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return threads_.empty() || waiting_.size() < 2 * threads_.size(); });
    ++open_;
    if (threads_.empty()) {
      lock.unlock();
      return complete(write, 0);
    }
    waiting_.push_back(std::move(write));
    lock.unlock();
    changed_.notify_all();
  }

 private:
  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return end_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const Write next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      changed_.notify_all();
      complete(next, 0);
      lock.lock();
    }
  }

  std::deque<Write> waiting_;
  bool end_ = false;
  std::vector<QuietThread> threads_;
};

}  // namespace

Status WriteQueue::finish() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return open_ == 0; });
  return std::exchange(first_, Status());
}

void WriteQueue::complete(const Write& write, size_t written) {
  bool wanted = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    wanted = first_.has_value();
  }
  // The next transfer must start at an aligned offset again.
  if (written < write.size) written -= written % kDirectAlignment;
  Status status;
  if (wanted && written < write.size)
    status = or_out_of_memory([&] {
      return write.file->write(static_cast<const char*>(write.data) + written, write.size - written,
                               write.at + written);
    });
  write.done();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!status && first_) first_ = std::move(status);
    --open_;
  }
  changed_.notify_all();
}

std::unique_ptr<WriteQueue> make_thread_queue(int threads) {
  return std::make_unique<ThreadQueue>(threads);
}

std::unique_ptr<WriteQueue> make_write_queue(Io& io, int threads) {
  if (!io.concurrent()) return make_thread_queue(0);
  const char* wish = std::getenv("DL_CHECKPOINT_URING");
  if (io.native() && !(wish && std::strcmp(wish, "0") == 0))
    if (auto queue = make_uring_queue(kUringDepth)) return queue;
  return make_thread_queue(threads);
}

}  // namespace dl::ckpt
