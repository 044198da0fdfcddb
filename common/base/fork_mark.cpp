// SPDX-License-Identifier: Apache-2.0
#include "common/base/fork_mark.h"

#include <pthread.h>

#include <atomic>

namespace dl {
namespace {

// The number of forks between the first mark and this process.
std::atomic<unsigned> forks_so_far{0};

void count_fork() {
  forks_so_far.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

ForkMark::ForkMark() noexcept {
  // If there is no memory for the handler, a child is taken for its parent, as it would be without this class.
  static const int registered = ::pthread_atfork(nullptr, nullptr, count_fork);
  static_cast<void>(registered);
  made_in_ = now();
}

unsigned ForkMark::now() noexcept {
  return forks_so_far.load(std::memory_order_relaxed);
}

}  // namespace dl
