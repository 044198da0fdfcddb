// SPDX-License-Identifier: Apache-2.0
// The guard of dlrun: a small parent process (dl-guard in ps) that starts dlrun as its child, hands signals on to it,
// returns its exit status, and starts another one when it dies. It has one thread, no libuv and no open files.
//
//   batch script, shell -> dl-guard -> dlrun -> srun, agents
//
// Signals. The child has a process group of its own, so that signals to the guard, to its group or from a terminal
// (Ctrl-C, Ctrl-Z, hang-up) reach the guard alone, which hands each on once. If both get a signal (Slurm sends it to
// all processes of a job step), dlrun gets it twice within milliseconds and counts it once (run_stop.cpp). A dlrun that
// takes the place of a dead one in a job of Slurm gets SIGTERM and SIGUSR2 only when it handles signals: they would end
// it before it has recorded what becomes of the job. If the guard is killed, the kernel kills dlrun at once (parent
// death signal), and agents end their learners.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/result.h"

namespace dl::guard {

// What a dlrun that replaces a dead one needs to know about that one. `death` is empty for the first dlrun.
struct Predecessor {
  std::string death;    // "dlrun was killed by signal 9 (SIGKILL)"
  bool last = false;    // too many have died: only record that the job failed, and end with exit_status
  int exit_status = 0;  // of the dead one, as a shell shows it
  // It or an earlier one of this guard had begun an attempt. False: what the job directory says of the past was written
  // by another run of the job.
  bool began = false;
  // SIGTERM or SIGUSR2 that the dead one had not found the meaning of, or that came after the death, and when it came
  // (Unix time); 0: none.
  int notice = 0;
  int64_t notice_ms = 0;
  // The run id of its attempt if not all processes that it had started ended by themselves: learners may then be left
  // on other nodes, and have to be killed there. Else empty.
  std::string unswept;
};

struct Shared;

// Reports of the child to its guard, in memory that both share. To be used by one thread of the child.
class Link {
 public:
  explicit Link(Shared* shared) : shared_(shared) {}
  // The path of control.json, which the guard removes when the child has died, so that nobody takes the dead dlrun for
  // a living one. Empty: there is no such file any more.
  void control_file(const std::string& path);
  // An attempt has begun, and is recorded (Predecessor::began).
  void began();
  // The run id of the newest attempt (Predecessor::unswept).
  void run_id(const std::string& id);
  // The child has handlers for all signals; those that were kept back for it are delivered now.
  void handles_signals();
  // The signal whose meaning the child is still looking for (Predecessor::notice); 0: none.
  void unanswered(int signal, int64_t unix_ms);
  // True if the process that started the guard (the batch script) has ended.
  bool script_gone() const;

 private:
  Shared* shared_;
};

using Work = std::function<int(const Predecessor&, Link*)>;

// Runs `work` in a child process, again after each death, and returns the exit status of the last child. A
// std::exception that leaves `work` is printed and counts as a death. If a child cannot be started: a line on standard
// error, and 70 or the exit status of the dead child. Call it with one thread, and before anything is opened.
int run_guarded(const Work& work);

}  // namespace dl::guard
