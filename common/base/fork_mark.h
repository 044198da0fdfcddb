// SPDX-License-Identifier: Apache-2.0
// Finds out whether this process is the one that made an object, or a child of fork() which only has a copy of it. A
// child does not have the threads that work for the object, and what the object holds (a lease, sockets, files of the
// run) belongs to the parent. libdlckpt and libdlpool refuse what was made before the fork; neither is loaded by
// Slurm's daemons.
#pragma once

namespace dl {

class ForkMark {
 public:
  ForkMark() noexcept;
  // Costs only one load, because dlckpt_want calls it before every train step (getpid() is a system call). May be
  // called in a signal handler.
  bool in_child() const noexcept { return made_in_ != now(); }

 private:
  static unsigned now() noexcept;
  unsigned made_in_;
};

}  // namespace dl
