// SPDX-License-Identifier: Apache-2.0
// Compares what dl.toml says of the cluster with what Slurm has, for `dlctl config check`. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/site/site_config.h"
#include "launcher/ctl/quota_plan.h"

namespace dl::ctl {

struct SlurmCluster {
  std::set<std::string> partitions;
  int most_gpus = 0;                        // that a node has, of all types together
  std::map<std::string, int> gpus_of_node;  // the most GPUs that a node has, by type; kPlainGpuType: without one
  std::map<std::string, int> nodes;         // number of nodes with GPUs of a type
  SlurmHas has;                             // licences, and names of QOS if there is slurmdbd
};

// Parsers of `scontrol --oneliner show partition` and `... show node`.
void read_partitions(const std::string& text, SlurmCluster* slurm);
void read_nodes(const std::string& text, SlurmCluster* slurm);

// A sentence for each difference that jobs would meet: tiers, GPUs and number of nodes, licences of quotas.
std::vector<std::string> differences(const SiteConfig& site, const SlurmCluster& slurm);

}  // namespace dl::ctl
