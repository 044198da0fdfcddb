// SPDX-License-Identifier: Apache-2.0
// What the kernel's texts say of the use of CPUs, memory and storage. A text may be of any kernel, cut off, or not
// there at all: what it does not say is kUnmeasured, never 0. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/agent/oom_watch.h"

namespace dl::agent {

constexpr int64_t kUnmeasured = -1;

// /proc/PID/stat: the CPU time of the process and of its children that have ended and that it has waited for, in ticks
// of the clock. The name of the process, which it chooses itself, may hold any character.
int64_t cpu_ticks(std::string_view stat);

// /proc/PID/status: bytes of memory without pages of files, that is RssAnon and RssShmem.
int64_t own_memory(std::string_view status);

struct StorageUse {
  int64_t read = kUnmeasured, written = kUnmeasured;  // bytes
};
// /proc/PID/io: what came from storage and was to go there, also over a network file system, but not what the page
// cache had already.
StorageUse storage_use(std::string_view io);

// The file in which the memory of a job step stands: memory.stat of the control group of the step of Slurm in which
// this process runs, from the place of its file of killed processes (oom_watch.h). Empty outside of a step: other
// groups may have processes of others.
std::string step_memory_file(const OomFile& file);
// What this file says, without the page cache: anon and shmem of version 2, total_rss (and total_shmem, where it is
// there) of version 1.
int64_t group_memory(std::string_view memory_stat);

// How long to wait until the next look: `look_ms`, sooner in the first seconds of a learner, of which little else would
// be known if it ends soon, and so long after a look that took long that looks take a thousandth of a core; but never
// longer than 300 s, or look_ms if that is more.
// waited_ms: before the last look; 0: there was none. took_us: CPU time of the last look.
int64_t next_wait_ms(int64_t waited_ms, int64_t look_ms, int64_t took_us);

}  // namespace dl::agent
