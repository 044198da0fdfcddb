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

constexpr int64_t kMaxTasks = 1000000;

// SLURM_TIME_FORMAT may be set to print seconds.
std::optional<int64_t> read_time(const std::string& text) {
  auto seconds = parse_int(text, 0, INT64_MAX);
  return seconds ? *seconds : slurm_cli::parse_slurm_time(text);
}

// How many numbers a list such as "0-3,8" names; 0 if it cannot be read.
int count_numbers(const std::string& list) {
  const auto ranges = parse_ranges(list, kMaxTasks);
  int64_t count = 0;
  if (ranges)
    for (const auto& [first, last] : *ranges) count += last - first + 1;
  return static_cast<int>(count);
}

}  // namespace

Result<std::vector<Node>> nodes_of_companion(const slurm_cli::JobText& companion) {
  std::vector<Node> nodes;
  const auto tasks = parse_int(companion.value("NumTasks"), 1, kMaxTasks);
  for (const slurm_cli::NodeShare& share : companion.node_shares) {
    DL_TRY_ASSIGN(const std::vector<std::string> names, expand_hostlist(share.nodes));
    for (const std::string& name : names) {
      Node node;
      node.name = name;
      node.cpus = count_numbers(share.cpu_ids);
      node.gpus = slurm_cli::count_gpus(share.gres);
      node.companion = slurm_cli::own_id(companion);
      nodes.push_back(std::move(node));
    }
  }
  if (nodes.empty()) return Error{Errc::kInvalid, "scontrol shows no nodes of job " + slurm_cli::own_id(companion)};
  for (Node& node : nodes)
    if (tasks && *tasks % static_cast<int64_t>(nodes.size()) == 0)
      node.tasks = static_cast<int>(*tasks / static_cast<int64_t>(nodes.size()));
  return nodes;
}

void refine_from_scontrol(const slurm_cli::JobText& job, Allocation* allocation) {
  if (const std::string id = slurm_cli::own_id(job); !id.empty()) allocation->job_id = id;
  // WorkDir is the submit directory, or what --chdir names. The job's checkpoints are there, too.
  if (const std::string folder = job.value("WorkDir"); folder.rfind('/', 0) == 0) allocation->submit_dir = folder;
  if (auto end = read_time(job.value("EndTime"))) allocation->end_time_s = end;
  const auto tasks = parse_int(job.value("NumTasks"), 1, kMaxTasks);  // one for each node if it asked for none
  if (allocation->of_step && tasks) allocation->tasks = static_cast<int>(*tasks);
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
