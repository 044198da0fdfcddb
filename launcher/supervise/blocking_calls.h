// SPDX-License-Identifier: Apache-2.0
// Calls that may block (Slurm's commands, the lease's file) on libuv's thread pool, one after another, so that dlrun's
// loop never waits for slurmctld. Used from the loop's thread alone.
#pragma once

#include <uv.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace dl::supervise {

class BlockingCalls {
 public:
  explicit BlockingCalls(uv_loop_t* loop) : loop_(loop) {}
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;

  // Runs `work` on another thread, then `done` on the loop's. A task with a non-empty `key` replaces a waiting one with
  // the same key, whose `done` is never called: of several comments only the newest is worth sending.
  void post(std::function<void()> work, std::function<void()> done, const std::string& key = {});
  bool idle() const { return running_ == nullptr && queue_.empty(); }

 private:
  struct Task {
    uv_work_t request{};
    BlockingCalls* owner = nullptr;
    std::string key;
    std::function<void()> work, done;
  };
  void start_next();

  uv_loop_t* loop_;
  std::deque<std::unique_ptr<Task>> queue_;
  std::unique_ptr<Task> running_;
};

}  // namespace dl::supervise
