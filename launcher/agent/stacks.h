// SPDX-License-Identifier: Apache-2.0
// Shows what a learner that makes no progress is doing: the threads of its processes as the kernel sees them, and their
// stacks if gdb or py-spy is installed. No signal is sent to the learner: it may catch signals, or hang in a handler.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dl::agent {

// State of the process's main thread in /proc: 'R', 'S', 'D', 'T', ...; '?' if it is gone.
char main_thread_state(pid_t pid);

// CPU time of a process and its descendants in milliseconds, those that have ended and were waited for included.
int64_t cpu_ms_of_tree(pid_t root);

// Writes the stacks to `path`, at most 1 MiB, within about 10 s. ask_nccl: NCCL's status of the whole job comes before
// them (nccl_ras.h). Blocks, so call it in a child process.
void write_stacks(pid_t root, bool ask_nccl, const std::string& path);

}  // namespace dl::agent
