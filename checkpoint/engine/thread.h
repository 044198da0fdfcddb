// SPDX-License-Identifier: Apache-2.0
// Threads of the library: they take no signals, which are the program's business.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace dl::ckpt {

template <typename Body>
std::thread start_thread(Body&& body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    sigset_t* mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, mask, nullptr); }
  } restore{&before};
  return std::thread(std::forward<Body>(body));
}

}  // namespace dl::ckpt
