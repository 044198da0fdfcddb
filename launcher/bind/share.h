// SPDX-License-Identifier: Apache-2.0
// Which CPUs of its node a learner gets. Pure: decided from a topology that hwloc has read, or made up.
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

// Of the learners of one node.
struct Place {
  int local_rank = 0, local_world_size = 1;  // 0 <= local_rank < local_world_size
};

struct Share {
  Bitmap cpus;    // never empty
  Bitmap memory;  // NUMA nodes whose memory is taken first; empty: as the kernel does by itself
};

// The topology must hold nothing but the CPUs that may be used (hwloc_topology_restrict). gpu_cpus: the CPUs nearest to
// the learner's GPUs; empty or nullptr: not known, then the learners are laid over the NUMA nodes in blocks. More
// learners than cores share cores; none is left without. kInvalid for a place that is none, kUnsupported where the
// topology has no CPU.
Result<Share> share_of(hwloc_topology_t topology, BindMode mode, Place place, hwloc_const_bitmap_t gpu_cpus);

// Whether the CPUs that a job's processes may use are more than its own. machine: CPUs of the node; usable: those of
// them that these processes may use, and their cores; slurm: CPUs that Slurm counts for the job on this node, 0 if it
// says nothing. Where Slurm does not confine jobs, all CPUs are usable, and to bind would take those of others; a count
// in cores or in threads is taken as meant well.
struct CpuCounts {
  int machine = 0, usable = 0, usable_cores = 0, slurm = 0;
};
bool not_confined(const CpuCounts& counts);

}  // namespace dl::bind
