// SPDX-License-Identifier: Apache-2.0
// dl-bind: binds itself to the CPUs that a learner gets, and then becomes the learner's command. dl-agent starts it;
// users do not call it:
//   dl-bind MODE LOCAL_RANK LOCAL_WORLD_SIZE CPUS GPUS -- COMMAND...
// CPUS: how many CPUs of this node Slurm counts for the job, or 0 if that is unknown. GPUS: the learner's, "0,1" or
// names; may be empty. If a learner cannot be bound, it runs unbound, and its log names the reason.
// Exit status: the command's; 127 or 126 if it is not there or cannot be executed; 2 for a wrong command line.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "common/base/parse.h"
#include "common/base/standard_files.h"
#include "launcher/bind/gpu_cpus.h"
#include "launcher/bind/share.h"

namespace {

using namespace dl;
using namespace dl::bind;

constexpr int kMaxCount = 1 << 20;

struct Arguments {
  BindMode mode = BindMode::kNone;
  Place place;
  int cpus = 0;
  std::vector<std::string> gpus;
};

Result<Arguments> read_arguments(char** argv) {
  Arguments arguments;
  DL_TRY_ASSIGN(arguments.mode, parse_bind(argv[1]));
  int* const numbers[] = {&arguments.place.local_rank, &arguments.place.local_world_size, &arguments.cpus};
  for (size_t i = 0; i < 3; ++i) {
    DL_TRY_ASSIGN(const int64_t value, parse_int(argv[2 + i], 0, kMaxCount));
    *numbers[i] = static_cast<int>(value);
  }
  for (const std::string& name : split(argv[5], ','))
    if (!name.empty()) arguments.gpus.push_back(name);
  return arguments;
}

struct FreeTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};

Status bind_self(const Arguments& arguments) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return errno_error("read the CPUs and caches of this node", errno);
  const std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, FreeTopology> topology(raw);
  if (hwloc_topology_load(raw) != 0) return errno_error("read the CPUs and caches of this node", errno);
  const Bitmap usable = make_bitmap();
  if (hwloc_get_cpubind(raw, usable.get(), HWLOC_CPUBIND_PROCESS) != 0)
    return errno_error("ask the kernel which CPUs this process may use", errno);
  CpuCounts counts;
  counts.slurm = arguments.cpus;
  counts.machine = hwloc_bitmap_weight(hwloc_topology_get_complete_cpuset(raw));
  if (hwloc_topology_restrict(raw, usable.get(), 0) != 0)
    return errno_error("leave out the CPUs that this process may not use", errno);
  counts.usable = hwloc_bitmap_weight(hwloc_topology_get_topology_cpuset(raw));
  const int cores = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_CORE);
  counts.usable_cores = cores > 0 ? cores : counts.usable;
  if (not_confined(counts))
    return Error{Errc::kConflict,
                 "Slurm gave the job " + std::to_string(counts.slurm) + " of the " + std::to_string(counts.machine) +
                     " CPUs of this node but lets it use them all (see task/affinity, ConstrainCores)"};
  const Bitmap near = arguments.mode == BindMode::kNuma ? cpus_near(arguments.gpus) : make_bitmap();
  DL_TRY_ASSIGN(const Share share, share_of(raw, arguments.mode, arguments.place, near.get()));
  if (hwloc_set_cpubind(raw, share.cpus.get(), HWLOC_CPUBIND_PROCESS) != 0)
    return errno_error("bind to CPUs " + list_of(share.cpus.get()), errno);
  // Without HWLOC_MEMBIND_STRICT the NUMA node is preferred, not forced: a learner that needs more memory takes it from
  // other nodes. Some containers do not allow this call.
  if (hwloc_bitmap_iszero(share.memory.get()) == 0 &&
      hwloc_set_membind(raw, share.memory.get(), HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) !=
          0)
    std::fprintf(stderr, "dl-bind: the memory of NUMA node %s cannot be preferred: %s\n",
                 list_of(share.memory.get()).c_str(), std::strerror(errno));
  return {};
}

}  // namespace

int main(int argc, char** argv) try {
  dl::open_closed_standard_files();
  if (argc < 8 || std::strcmp(argv[6], "--") != 0) {
    std::fprintf(stderr,
                 "dl-bind: this program is started by dl-agent; ask for it with dlrun --bind=cores or --bind=numa, see "
                 "dlrun(1)\n");
    return 2;
  }
  const auto arguments = read_arguments(argv);
  const Status bound = arguments ? bind_self(*arguments) : Status(arguments.error());
  if (!bound) std::fprintf(stderr, "dl-bind: this learner is not bound: %s\n", bound.error().text.c_str());
  ::execvp(argv[7], argv + 7);
  const int reason = errno;
  std::fprintf(stderr, "dl-bind: %s: %s\n", argv[7], std::strerror(reason));
  return reason == ENOENT ? 127 : 126;
} catch (const std::exception& e) {
  std::fprintf(stderr, "dl-bind: %s\n", e.what());
  return 126;
}
