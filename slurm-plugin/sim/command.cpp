// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/command.h"

#include <cstdio>

#include "launcher/common/atomic_file.h"
#include "slurm-plugin/sim/cluster.h"

namespace dl::sim {

void ClusterOptions::add(CLI::App* app) {
  app->add_option("--nodes", nodes, "nodes of each type, TYPE=COUNTxGPUS[,...]")->capture_default_str();
  app->add_option("--switch-nodes", per_switch, "nodes on one leaf switch")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
}

Result<policy::ClusterState> ClusterOptions::cluster() const {
  auto state = parse_nodes(nodes, per_switch);
  if (!state) return std::move(state).error().with_context("--nodes");
  return state;
}

Status write_text(const std::string& path, const std::string& text) {
  if (path != "-") return write_file_atomically(path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return {};
  return Error{Errc::kIo, "cannot write to standard output"};
}

}  // namespace dl::sim
