// SPDX-License-Identifier: Apache-2.0
// Whether this process is the one that made an object, or a child of fork() which only has a copy of it: the threads
// that work for the object do not exist there, and what it holds (the lease, sockets, files of the run) is the
// parent's.
#pragma once

namespace dl::ckpt {

class ForkMark {
 public:
  ForkMark() noexcept;
  // Costs one load, because dlckpt_want asks before every train step (getpid() is a system call).
  bool in_child() const noexcept { return made_in_ != now(); }

 private:
  static unsigned now() noexcept;
  unsigned made_in_;
};

}  // namespace dl::ckpt
