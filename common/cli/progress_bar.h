// SPDX-License-Identifier: Apache-2.0
// Shows a progress bar if the work takes more than two seconds and stderr is a terminal. For programs only: libraries
// print nothing.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

namespace dl {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label) : label_(std::move(label)), terminal_(::isatty(STDERR_FILENO) == 1) {}
  // Erases the bar.
  ~ProgressBar() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // part: the share of the work that is done, 0 to 1. tail: called with the seconds since the beginning; returns the
  // text after the bar. Draws at most ten times a second. May be called from any thread.
  template <typename Tail>
  void show(double part, Tail&& tail) {
    if (!terminal_) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto now = Clock::now();
    if (now - begin_ < std::chrono::seconds(2) || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    shown_ = true;
    constexpr size_t kWidth = 30;
    part = std::clamp(part, 0.0, 1.0);
    const auto full = static_cast<size_t>(part * kWidth);
    const std::string text = std::forward<Tail>(tail)(std::chrono::duration<double>(now - begin_).count());
    fmt::print(stderr, "\r\033[K{} [{}{}] {:3.0f}% {}", label_, std::string(full, '#'), std::string(kWidth - full, '.'),
               100 * part, text);
    std::fflush(stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::string label_;
  const bool terminal_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  bool shown_ = false;
  Clock::time_point last_;
};

}  // namespace dl
