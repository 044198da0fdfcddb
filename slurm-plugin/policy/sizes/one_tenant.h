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
  int type = kAnyType;      // of the parts; of a waiting job kAnyType
  std::vector<Part> parts;  // that it has, or would start on; empty: it waits
};

struct TenantSizes {
  std::vector<Member> members;
  std::vector<int> gpus;  // by type: what they may hold together
};

// Returns the changes, sorted by job; empty if none is worth its cost and finds its nodes. *free: the free GPUs without
// those that are kept for others; what the changes take and give back is counted in it.
std::vector<Resize> sizes_of(const ClusterState& state, const TenantSizes& tenant, const SizeOptions& options,
                             FreeGpus* free);

}  // namespace dl::policy
