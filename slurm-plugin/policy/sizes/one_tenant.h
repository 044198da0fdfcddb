// SPDX-License-Identifier: Apache-2.0
// Chooses the sizes of one tenant's jobs, and the nodes that they get.
#pragma once

#include <optional>

#include "slurm-plugin/policy/free_gpus.h"
#include "slurm-plugin/policy/sizes/sizes.h"

namespace dl::policy {

// A job whose size is chosen.
struct Member {
  int job = 0;
  const JobSpeeds* speeds = nullptr;  // nullptr: not known, so that it gets its smallest size
  bool running = false;
  bool starts = false;      // decide() starts it
  int type = kAnyType;      // type of the GPUs in `parts`; kAnyType if it waits
  std::vector<Part> parts;  // what it has, or would start on; empty if it waits
};

struct TenantSizes {
  std::vector<Member> members;
  std::vector<int> gpus;  // by type: what they may hold together
};

// Returns the changes, sorted by job; empty if no change is worth its cost, or if none has room on the nodes. *free:
// the free GPUs without those that are kept for others. What the changes take and give back is counted in it.
std::vector<Resize> sizes_of(const ClusterState& state, const TenantSizes& tenant, const SizeOptions& options,
                             FreeGpus* free);

}  // namespace dl::policy
