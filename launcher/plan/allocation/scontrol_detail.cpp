// SPDX-License-Identifier: Apache-2.0
// Completes the allocation with what `scontrol show job -d` shows and the environment does not.
#include <map>
#include <optional>
#include <string>

#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "launcher/plan/allocation/allocation.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::plan {
namespace {

// SLURM_TIME_FORMAT may be set to print seconds.
std::optional<int64_t> read_time(const std::string& text) {
  auto seconds = parse_int(text, 0, INT64_MAX);
  return seconds ? *seconds : slurm_cli::parse_slurm_time(text);
}

}  // namespace

void refine_from_scontrol(const slurm_cli::JobText& job, Allocation* allocation) {
  if (const std::string id = slurm_cli::own_id(job); !id.empty()) allocation->job_id = id;
  // WorkDir is the submit directory, or what --chdir names. The job's checkpoints are there, too.
  if (const std::string folder = job.value("WorkDir"); folder.rfind('/', 0) == 0) allocation->submit_dir = folder;
  if (auto end = read_time(job.value("EndTime"))) allocation->end_time_s = end;
  std::map<std::string, int> gpus;
  for (const slurm_cli::NodeShare& share : job.node_shares) {
    const auto names = expand_hostlist(share.nodes);
    if (!names) continue;
    for (const std::string& name : *names) gpus[name] = slurm_cli::count_gpus(share.gres);
  }
  for (Node& node : allocation->nodes) {
    const auto found = gpus.find(node.name);
    if (found != gpus.end()) node.gpus = found->second;
  }
}

}  // namespace dl::plan
