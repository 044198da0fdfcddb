// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/write_queue.h"

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <vector>

#include "checkpoint/store/quiet_thread.h"

namespace dl::ckpt {
namespace {

constexpr unsigned kUringDepth = 16;

class ThreadQueue final : public WriteQueue {
 public:
  explicit ThreadQueue(int threads) {
    for (int i = 0; i < threads; ++i) {
      auto thread = QuietThread::start([this] { work(); });
      if (!thread) break;  // a limit on threads: those we have do, none too
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

  void submit(OutputFile& file, const void* data, size_t size, uint64_t at, std::function<void()> done) override {
    if (threads_.empty()) return perform(Write{&file, data, size, at, std::move(done)});
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return waiting_.size() < 2 * threads_.size(); });
      waiting_.push_back(Write{&file, data, size, at, std::move(done)});
      ++open_;
    }
    changed_.notify_all();
  }

  Status finish() override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_ == 0; });
    Status first = std::move(first_);
    first_ = Status();
    return first;
  }

  const char* name() const override { return threads_.empty() ? "pwrite" : "threads"; }

 private:
  struct Write {
    OutputFile* file;
    const void* data;
    size_t size;
    uint64_t at;
    std::function<void()> done;
  };

  void perform(Write write) {
    bool wanted = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      wanted = static_cast<bool>(first_);
    }
    Status status;
    if (wanted) status = attempt(write);
    write.done();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!status && first_) first_ = std::move(status);
  }

  static Status attempt(const Write& write) {
    try {
      return write.file->write(write.data, write.size, write.at);
    } catch (const std::bad_alloc&) {
      return Error{Errc::kInternal, "out of memory", ENOMEM};
    }
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return end_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      Write next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      changed_.notify_all();
      perform(std::move(next));
      lock.lock();
      --open_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Write> waiting_;
  size_t open_ = 0;
  bool end_ = false;
  Status first_;
  std::vector<QuietThread> threads_;
};

}  // namespace

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
