// SPDX-License-Identifier: Apache-2.0
// How much memory is left in the job's cgroup. Slurm kills processes that exceed it, so staging memory must stay within
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dl::ckpt {

struct MemoryRoom {
  uint64_t limit = 0;  // limit in bytes of the cgroup with the least memory left
  uint64_t used = 0;   // bytes in use, without file cache that the kernel can drop
  uint64_t left() const { return limit > used ? limit - used : 0; }
};

// nullopt if no cgroup (v1 or v2) limits this process. The paths are for tests.
std::optional<MemoryRoom> memory_room(const std::string& self = "/proc/self/cgroup",
                                      const std::string& root = "/sys/fs/cgroup");

}  // namespace dl::ckpt
