// SPDX-License-Identifier: Apache-2.0
// A thread of the library. This class starts all of the library's threads: each blocks all signals, so that these go to
// the program's own threads, and its owner joins it.
#pragma once

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/result.h"

namespace dl::ckpt {

class QuietThread {
 public:
  // kIo if no thread can be started. body must not throw.
  template <typename Body>
  static Result<QuietThread> start(Body&& body) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits this mask
    Result<QuietThread> thread = Error{};
    try {
      thread = QuietThread(std::thread(std::forward<Body>(body)));
    } catch (const std::system_error& error) {
      thread = errno_error("start a thread", error.code().value());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  }
  QuietThread() = default;
  QuietThread(QuietThread&&) noexcept = default;
  QuietThread& operator=(QuietThread&& other) noexcept {
    join();
    thread_ = std::move(other.thread_);
    return *this;
  }
  ~QuietThread() { join(); }

  bool running() const { return thread_.joinable(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  // For a forked child, in which the thread does not exist.
  void forget() {
    if (thread_.joinable()) thread_.detach();
  }

 private:
  explicit QuietThread(std::thread thread) : thread_(std::move(thread)) {}
  std::thread thread_;
};

}  // namespace dl::ckpt
