// SPDX-License-Identifier: Apache-2.0
// The object stores of the command line, and what the library asks of a dlckpt that it has started (--beside).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/objects/rclone_objects.h"
#include "checkpoint/tools/command.h"

namespace dl::ckpt::tool {

// Whether a PATH means a place in an object store, NAME:PATH. A directory of such a name is written ./NAME:PATH.
bool is_object_place(const std::string& path);

// Ignores SIGPIPE, as RcloneObjects needs it, and opens the place.
Result<std::unique_ptr<RcloneObjects>> open_objects(const std::string& place);

// Adds the option --beside PID, which libdlckpt gives, and which is no business of users.
void add_beside(CommandLine* command, int64_t* pid);
// With a pid: lets go of what the process that trains has open, works at a lower priority, ignores the signals by which
// Slurm asks a job to stop (it is the process that trains which decides what to do then), and ends within a fifth of
// a second once that process has ended. Without: nothing.
void work_beside(int64_t pid);
// Tells libdlckpt, once a second at most, that bytes move: at the end of a run it waits no longer than they do. Without
// a pid: nothing.
class SignsOfLife {
 public:
  explicit SignsOfLife(int64_t pid) : told_to_(pid) {}
  void give();

 private:
  int64_t told_to_;
  std::optional<std::chrono::steady_clock::time_point> given_;
};
// Prints the answer that libdlckpt reads, "ok" and these words. Returns kOk.
int answer(const std::vector<std::string>& words);

int exit_code_of(const Error& error);

}  // namespace dl::ckpt::tool
