// SPDX-License-Identifier: Apache-2.0
// The guard of dlrun: a small parent process (dl-guard in ps) that starts dlrun as its child, hands signals on to it
// and its exit status back, and has another one take its place when it dies. One thread, no libuv, nothing open.
//
//   batch script, shell -> dl-guard -> dlrun -> srun, agents
//
// Signals. The child has a process group of its own, so that what is sent to the guard, to its group or by a terminal
// (Ctrl-C, Ctrl-Z, hang-up) comes to the guard alone, which hands each on once. Who signals both (Slurm, to all
// processes of a step) tells dlrun twice within milliseconds, which it takes for once (supervisor_stop.cpp).
// The guard killed: the kernel kills dlrun at once, as its parent's death signal, and agents end their learners.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "common/base/result.h"

namespace dl::guard {

// What a dlrun is told that takes the place of one that died. `death` is empty for the first.
struct Predecessor {
  std::string death;    // "dlrun was killed by signal 9 (SIGKILL)"
  bool last = false;    // too many died: write down that the job failed, and end with exit_status
  int exit_status = 0;  // of the dead one, as a shell shows it
  int notice = 0;       // SIGTERM or SIGUSR2 that came in between, else 0
  // Its attempt's run id, where not all that it had started ended by itself: learners may be left on other nodes, and
  // have to be swept. Else empty.
  std::string unswept;
};

struct Shared;

// The child's way to its guard: memory that both see. Used by one thread of the child.
class Link {
 public:
  explicit Link(Shared* shared) : shared_(shared) {}
  // Where control.json is: the guard removes it when the child has died, so that nobody takes the dead one for a living
  // one. Empty: there is none any more.
  void control_file(const std::string& path);
  // The newest attempt's run id (Predecessor::unswept).
  void run_id(const std::string& id);
  // The process that started the guard (the batch script) is gone.
  bool script_gone() const;

 private:
  Shared* shared_;
};

using Work = std::function<int(const Predecessor&, Link*)>;

// Runs `work` in a child process, anew after each death, and returns the exit status of the last. An exception that
// leaves `work` is printed and counts as a death. Call it with one thread and before anything is opened.
int run_guarded(const Work& work);

}  // namespace dl::guard
