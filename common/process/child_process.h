// SPDX-License-Identifier: Apache-2.0
// Starts other programs by argument vector, never through a shell. Children start with default signal dispositions and
// an empty signal mask, whatever the caller's are, and inherit only the three descriptors they are given (all others
// that slurm-dl opens are O_CLOEXEC).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl {

struct SpawnOptions {
  std::vector<std::string> argv;                        // argv[0] is looked up in PATH (the caller's) if it has no '/'
  std::optional<std::vector<std::string>> environment;  // "NAME=value"; nullopt: the caller's environment
  std::string work_dir;                                 // empty: that of the caller
  int stdin_fd = -1;                                    // -1: /dev/null; the caller keeps all three descriptors
  int stdout_fd = -1;                                   // -1: that of the caller
  int stderr_fd = -1;                                   // -1: that of the caller
  bool new_process_group = false;                       // the child becomes the leader of a process group of its own
  int parent_death_signal = 0;                          // the child gets it when the calling thread ends; 0: none
  std::vector<int> ignored_signals;                     // the child ignores these from the start, also after exec
};

// A pipe, which no child inherits: the ends to read from and to write to.
Result<std::pair<UniqueFd, UniqueFd>> new_pipe();

// Forks and execs. Returns when exec has succeeded, or with its error, such as kNotFound "PROGRAM: No such file or
// directory"; then no process is left behind. The caller has to reap the process.
Result<pid_t> spawn_process(const SpawnOptions& options);

// From now on each child begins a session of its own, and so has no terminal but the descriptors that it is given. For
// a process that has given up root's rights: whoever has got them could take such a child over, and with it a terminal
// of root's. Such a child does not get the signals that a terminal sends (Ctrl-C).
void separate_children();

struct CommandOptions {
  std::chrono::milliseconds timeout{10000};
  std::string input;  // written to its standard input, which is then closed; at most 64 KiB
  // "NAME=value": added to the caller's environment, or replacing variables in it
  std::vector<std::string> environment;
  std::vector<int> ignored_signals;
  size_t max_output = 8 << 20;       // bytes kept of stdout and of stderr each; the rest is read and dropped
  std::vector<std::string> without;  // names of variables to remove from its environment
};

struct CommandResult {
  int exit_code = -1;  // -1 if ended by a signal
  int signal = 0;      // 0 if it exited
  std::string out, err;
  bool ok() const { return exit_code == 0; }
};

// Runs a program to its end, in the calling thread. kTimeout "PROGRAM: no answer within 10 s" after the timeout, when
// the program has been killed and reaped. Also gives the errors of spawn_process(). Safe to call from several threads.
Result<CommandResult> run_command(const std::vector<std::string>& argv, const CommandOptions& options = {});

// Waits until this child has ended, for `limit` at most; then kills it with SIGKILL. Reaps it. A child that is not gone
// 100 ms after it was killed stands still in the kernel, as with a file server that does not answer: it is left behind.
// Returns at once if the caller has no such child (any more).
void end_child(pid_t pid, std::chrono::milliseconds limit);

// The file that a search of PATH finds for `program`, or empty. A name with '/' is returned as it is if it is
// executable.
std::string find_program(const std::string& program);

// What a shell prints for a wait status: the exit code, or 128 + signal.
int shell_exit_code(int wait_status);

}  // namespace dl
