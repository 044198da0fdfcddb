// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/observe/topology_command.h"

#include <algorithm>

#include "common/process/child_process.h"
#include "slurm-plugin/observe/topology.h"

namespace dl::observe {
namespace {

constexpr size_t kMostTopologies = 16;

// The output of scontrol; none if it failed. Two variables of the caller are removed: they would cut lines short, or
// make scontrol ask another cluster than libslurm does.
std::optional<std::string> show(const std::vector<std::string>& what, std::chrono::steady_clock::time_point end) {
  CommandOptions options;
  options.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  if (options.timeout.count() <= 0) return std::nullopt;
  std::vector<std::string> argv = {"env", "-u", "SLURM_TOPO_LEN", "-u", "SLURM_CLUSTERS", "scontrol", "show"};
  argv.insert(argv.end(), what.begin(), what.end());
  auto result = run_command(argv, options);
  if (!result || !result->ok()) return std::nullopt;
  return std::move(result->out);
}

}  // namespace

std::optional<std::vector<SwitchRecord>> ask_topology(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  // Before 25.05 scontrol does not know `topoconf`; there is one topology, without a name.
  std::vector<std::string> names;
  if (const auto yaml = show({"topoconf"}, end)) names = parse_topology_names(*yaml);
  if (names.size() < 2) {
    const auto text = show({"topology"}, end);
    return text ? std::optional(parse_topology(*text)) : std::nullopt;
  }
  std::vector<SwitchRecord> leaves;
  names.resize(std::min(names.size(), kMostTopologies));
  for (const std::string& name : names) {
    const auto text = show({"topology", name}, end);
    if (!text) return std::nullopt;
    for (SwitchRecord& leaf : parse_topology(*text)) leaves.push_back(std::move(leaf));
  }
  return leaves;
}

}  // namespace dl::observe
