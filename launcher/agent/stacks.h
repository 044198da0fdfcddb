// SPDX-License-Identifier: Apache-2.0
// What a learner that makes no progress is doing: its processes' threads as the kernel sees them, and, where gdb or
// py-spy is installed, their stacks. Nothing is sent to the learner: it may catch signals, or hang in a handler.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dl::agent {

// State of the process's main thread in /proc: 'R', 'S', 'D', 'T', ...; '?' if it is gone.
char main_thread_state(pid_t pid);

// CPU time of a process and of all below it, those that have ended and were waited for included. Milliseconds.
int64_t cpu_ms_of_tree(pid_t root);

// Writes them to `path`, at most 1 MiB, within about 10 s; before the stacks, if asked for, what NCCL tells of the
// whole job (nccl_ras.h). Blocks: for a child process.
void write_stacks(pid_t root, bool ask_nccl, const std::string& path);

}  // namespace dl::agent
