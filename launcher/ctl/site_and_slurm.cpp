// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/site_and_slurm.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "launcher/slurm_cli/records.h"
#include "slurm-plugin/observe/gres.h"

namespace dl::ctl {
namespace {

constexpr size_t kMostNamed = 4;

template <class Names>
std::string some_of(const Names& names) {
  std::string text;
  size_t count = 0;
  for (const std::string& name : names)
    if (count++ < kMostNamed) text += (text.empty() ? "" : ", ") + printable(name, 100);
  if (count > kMostNamed) text += fmt::format(" and {} others", count - kMostNamed);
  return text.empty() ? "none" : text;
}

void compare_tier(const char* tier, const TierTarget& target, const SlurmCluster& slurm,
                  std::vector<std::string>* told) {
  if (!target.partition.empty() && slurm.partitions.count(target.partition) == 0)
    told->push_back(fmt::format("[tiers.{}]: Slurm has no partition '{}'; it has {}", tier, target.partition,
                                some_of(slurm.partitions)));
  if (target.qos.empty()) return;
  if (!slurm.has.accounting)
    told->push_back(
        fmt::format("[tiers.{}]: QOS '{}' needs slurmdbd, which this cluster does not have; allowed: "
                    "partition = \"...\"",
                    tier, target.qos));
  else if (std::find(slurm.has.qos.begin(), slurm.has.qos.end(), target.qos) == slurm.has.qos.end())
    told->push_back(
        fmt::format("[tiers.{}]: Slurm has no QOS '{}'; it has {}", tier, target.qos, some_of(slurm.has.qos)));
}

void compare_nodes(const SiteConfig& site, const SlurmCluster& slurm, std::vector<std::string>* told) {
  std::set<std::string> types;
  for (const auto& [type, gpus] : slurm.gpus_of_node)
    types.insert(type == kPlainGpuType ? "GPUs without a type" : type);
  if (slurm.most_gpus == 0) {
    if (site.gpus_per_node > 0 || !site.gpus_per_node_by_type.empty())
      told->push_back("[nodes]: no node of Slurm's has GPUs");
    return;
  }
  if (site.gpus_per_node_by_type.empty() && site.gpus_per_node > 0 && site.gpus_per_node != slurm.most_gpus)
    told->push_back(fmt::format("[nodes] gpus_per_node = {}: a node of Slurm's has up to {} GPUs", site.gpus_per_node,
                                slurm.most_gpus));
  for (const auto& [type, gpus] : site.gpus_per_node_by_type) {
    const auto found = slurm.gpus_of_node.find(type);
    if (found == slurm.gpus_of_node.end())
      told->push_back(
          fmt::format("[nodes.types] {}: no node of Slurm's has GPUs of this type; it has {}", type, some_of(types)));
    else if (found->second != gpus)
      told->push_back(
          fmt::format("[nodes.types] {} = {}: a node of Slurm's has up to {} of them", type, gpus, found->second));
  }
  for (const auto& [type, count] : site.node_counts) {
    const auto found = slurm.nodes.find(type);
    if (found != slurm.nodes.end() && found->second != count)
      told->push_back(
          fmt::format("[nodes.counts] {} = {}: Slurm has {} nodes with such GPUs", type, count, found->second));
  }
}

}  // namespace

void read_partitions(const std::string& text, SlurmCluster* slurm) {
  for (const slurm_cli::Record& partition : slurm_cli::parse_records(text, "PartitionName"))
    slurm->partitions.insert(partition.value("PartitionName"));
}

void read_nodes(const std::string& text, SlurmCluster* slurm) {
  for (const slurm_cli::Record& node : slurm_cli::parse_records(text, "NodeName")) {
    const std::vector<observe::GpuCount> all = observe::parse_gpus(node.value("Gres"));
    slurm->most_gpus = std::max(slurm->most_gpus, observe::total(all));
    for (const observe::GpuCount& gpus : all) {
      const std::string type = gpus.type.empty() ? std::string(kPlainGpuType) : gpus.type;
      int& most = slurm->gpus_of_node[type];
      most = std::max(most, gpus.count);
      ++slurm->nodes[type];
    }
  }
}

std::vector<std::string> differences(const SiteConfig& site, const SlurmCluster& slurm) {
  std::vector<std::string> told;
  compare_tier("guaranteed", site.guaranteed, slurm, &told);
  compare_tier("borrow", site.borrow, slurm, &told);
  compare_nodes(site, slurm, &told);
  if (site.tenants.empty()) return told;
  std::vector<std::string> licences;
  for (const Step& step : plan_quotas(site, slurm.has).steps)
    if (step.what == "licence" && !step.wants.empty()) licences.push_back(step.name);
  if (!licences.empty())
    told.push_back(
        fmt::format("[tenants]: Slurm does not have the licences that stand for their GPUs ({}), so it refuses "
                    "or misjudges jobs with GPUs; allowed: dlctl quota sync",
                    some_of(licences)));
  return told;
}

}  // namespace dl::ctl
