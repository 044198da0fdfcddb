// SPDX-License-Identifier: Apache-2.0
// The sizes of one tenant's jobs, and the nodes that they get.
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

// The changes, by member; nothing where there is none that is worth its cost and finds its nodes. *free: what is free,
// without what is kept for others; is changed by what is taken and given back.
std::vector<Resize> sizes_of(const ClusterState& state, const TenantSizes& tenant, const SizeOptions& options,
                             FreeGpus* free);

}  // namespace dl::policy
