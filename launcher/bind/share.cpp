// SPDX-License-Identifier: Apache-2.0
#include "launcher/bind/share.h"

#include <climits>
#include <cstdlib>
#include <vector>

#include "common/base/count.h"

namespace dl::bind {
namespace {

// Divides all CPUs into as many parts as there are learners, along the tree of packages, caches and cores.
Status share_cores(hwloc_topology_t topology, Place place, Share* share) {
  const auto count = static_cast<unsigned>(place.local_world_size);
  std::vector<hwloc_bitmap_t> parts(count, nullptr);
  hwloc_obj_t root = hwloc_get_root_obj(topology);
  // The threads of one core stay together. If the machine's cores are unknown, its threads are divided.
  const int cores = hwloc_get_type_depth(topology, HWLOC_OBJ_CORE);
  const int failed = hwloc_distrib(topology, &root, 1, parts.data(), count, cores >= 0 ? cores : INT_MAX, 0);
  if (failed == 0) hwloc_bitmap_copy(share->cpus.get(), parts[static_cast<size_t>(place.local_rank)]);
  for (hwloc_bitmap_t part : parts) hwloc_bitmap_free(part);
  if (failed != 0)
    return Error{Errc::kUnsupported,
                 "hwloc could not divide the CPUs of this node among " + count_text(place.local_world_size, "learner")};
  return {};
}

std::vector<hwloc_obj_t> numa_nodes_with_cpus(hwloc_topology_t topology) {
  std::vector<hwloc_obj_t> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr)
    if (hwloc_bitmap_iszero(node->cpuset) == 0) nodes.push_back(node);
  return nodes;
}

Status share_numa(hwloc_topology_t topology, Place place, hwloc_const_bitmap_t gpu_cpus, Share* share) {
  const std::vector<hwloc_obj_t> nodes = numa_nodes_with_cpus(topology);
  if (nodes.empty())
    return Error{Errc::kUnsupported, "hwloc finds no NUMA nodes on this node; allowed: --bind=cores or --bind=none"};
  const auto take = [share](hwloc_obj_t node) {
    hwloc_bitmap_or(share->cpus.get(), share->cpus.get(), node->cpuset);
    hwloc_bitmap_or(share->memory.get(), share->memory.get(), node->nodeset);
  };
  for (hwloc_obj_t node : nodes)
    if (gpu_cpus != nullptr && hwloc_bitmap_intersects(node->cpuset, gpu_cpus) != 0) take(node);
  if (hwloc_bitmap_iszero(share->cpus.get()) != 0)
    take(nodes[static_cast<size_t>(place.local_rank) * nodes.size() / static_cast<size_t>(place.local_world_size)]);
  return {};
}

}  // namespace

std::string list_of(hwloc_const_bitmap_t bitmap) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, bitmap) < 0) return "";
  std::string list = text;
  std::free(text);
  return list;
}

Result<Share> share_of(hwloc_topology_t topology, BindMode mode, Place place, hwloc_const_bitmap_t gpu_cpus) {
  if (place.local_world_size < 1 || place.local_rank < 0 || place.local_rank >= place.local_world_size)
    return Error{Errc::kInvalid,
                 "local rank " + std::to_string(place.local_rank) + " is out of range on this node with " +
                     count_text(place.local_world_size, "learner") + "; allowed: 0 and more, below that number"};
  hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(topology);
  if (all == nullptr || hwloc_bitmap_iszero(all) != 0)
    return Error{Errc::kUnsupported, "hwloc finds no CPUs on this node that the job may use; allowed: --bind=none"};
  Share share{make_bitmap(), make_bitmap()};
  switch (mode) {
    case BindMode::kNone:
      hwloc_bitmap_copy(share.cpus.get(), all);
      break;
    case BindMode::kCores:
      DL_TRY(share_cores(topology, place, &share));
      break;
    case BindMode::kNuma:
      DL_TRY(share_numa(topology, place, gpu_cpus, &share));
      break;
  }
  return share;
}

bool not_confined(const CpuCounts& counts) {
  return counts.slurm > 0 && counts.usable == counts.machine && counts.slurm < counts.usable_cores;
}

}  // namespace dl::bind
