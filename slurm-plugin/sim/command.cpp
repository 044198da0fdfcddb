// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/command.h"

#include <cstdio>

#include "common/base/atomic_file.h"

namespace dl::sim {

void ClusterOptions::add(CommandLine* line) {
  line->option("-c,--config", &config, "dl.toml with tenants, quotas and, by [nodes.counts], nodes");
  line->option("--nodes", &nodes, "nodes of each type, TYPE=COUNTxGPUS[,...]; without --config a100=50x8");
  line->option("--switch-nodes", &per_switch, "nodes on one leaf switch").shows_default().between(1, 100000);
}

Result<Site> ClusterOptions::site() const {
  Site site;
  if (!config.empty()) {
    DL_TRY_ASSIGN(site, read_site(config));
  }
  if (nodes.empty() && !config.empty()) {
    if (!site.cluster.nodes_known)
      return Error{Errc::kInvalid,
                   config +
                       ": does not tell how many nodes of each type there are, and how many GPUs they have; "
                       "allowed: [nodes.counts] and [nodes.types], or --nodes"};
  } else if (Status set = set_nodes(nodes.empty() ? kDefaultNodes : nodes, &site.cluster); !set) {
    return std::move(set).error().with_context("--nodes");
  }
  set_switches(per_switch, &site.cluster);
  return site;
}

Status write_text(const std::string& path, const std::string& text) {
  if (path != "-") return write_file_atomically(path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return {};
  return Error{Errc::kIo, "the answer cannot be written to standard output"};
}

}  // namespace dl::sim
