// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/fork_mark.h"

#include <pthread.h>

#include <atomic>

namespace dl::ckpt {
namespace {

// The number of forks between the first mark and this process.
std::atomic<unsigned> forks{0};

void count() {
  forks.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

ForkMark::ForkMark() noexcept {
  // If there is no memory for the handler, a child is taken for its parent, as it would be without this class.
  static const int registered = ::pthread_atfork(nullptr, nullptr, count);
  static_cast<void>(registered);
  made_in_ = now();
}

unsigned ForkMark::now() noexcept {
  return forks.load(std::memory_order_relaxed);
}

}  // namespace dl::ckpt
