// SPDX-License-Identifier: Apache-2.0
// Decides which CPUs of its node a learner gets. Pure: it works on an hwloc topology, which may be synthetic.
#pragma once

#include <hwloc.h>

#include <memory>
#include <string>

#include "common/base/result.h"
#include "launcher/bind/bind_mode.h"

namespace dl::bind {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, FreeBitmap>;

inline Bitmap make_bitmap() {
  return Bitmap(hwloc_bitmap_alloc());
}
// "0-3,8"
std::string list_of(hwloc_const_bitmap_t bitmap);

// The place of a learner among those of its node.
struct Place {
  int local_rank = 0, local_world_size = 1;  // 0 <= local_rank < local_world_size
};

struct Share {
  Bitmap cpus;    // never empty
  Bitmap memory;  // NUMA nodes whose memory is preferred; empty: the kernel's default
};

// The topology must contain only the CPUs that may be used (hwloc_topology_restrict). gpu_cpus: the CPUs nearest to the
// learner's GPUs; empty or nullptr: not known, so learners are spread over the NUMA nodes in blocks. If there are more
// learners than cores, they share cores. kInvalid for a wrong `place`, kUnsupported if the topology has no CPU, or for
// kNuma no NUMA node.
Result<Share> share_of(hwloc_topology_t topology, BindMode mode, Place place, hwloc_const_bitmap_t gpu_cpus);

// machine: CPUs of the node; usable, usable_cores: those that the job's processes may use; slurm: CPUs that Slurm
// counts for the job on this node, 0 if unknown.
struct CpuCounts {
  int machine = 0, usable = 0, usable_cores = 0, slurm = 0;
};
// True if Slurm does not confine the job to its own CPUs, so that binding could take CPUs of other jobs: all CPUs of
// the node are usable, but Slurm counted fewer for the job than there are cores (so a count in cores and one in threads
// are both accepted).
bool not_confined(const CpuCounts& counts);

}  // namespace dl::bind
