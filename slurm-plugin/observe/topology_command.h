// SPDX-License-Identifier: Apache-2.0
// Asks scontrol for the network, in a process of its own.
//
// libslurm can be asked only up to 23.02. In later versions slurm_load_topo() returns data in a form of the topology
// plugin's own, and slurm_print_topo_info_msg() reads them with the plugin that the calling program loaded when it
// started. That is the wrong plugin after the site has changed its topology, and sometimes if topology.yaml names
// several (topology_g_topoinfo_print() of 25.05 to 26.05). Reading them wrongly could crash a daemon, but not one that
// asks another process.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "slurm-plugin/observe/records.h"

namespace dl::observe {

// The switches that nodes are connected to (topology.h). If topology.yaml names several topologies, those of the
// default one come first. Blocks until scontrol has answered, at most for about `limit`. Empty if Slurm has no
// topology; none if scontrol was not found, did not answer in time or failed, so that the caller can keep what it knew
// before. Safe to call from any thread.
std::optional<std::vector<SwitchRecord>> ask_topology(std::chrono::milliseconds limit);

}  // namespace dl::observe
