// SPDX-License-Identifier: Apache-2.0
// Asks scontrol for the network. libslurm tells it up to 23.02 alone; later, slurm_load_topo() gives a form of the
// topology plugin's own, which slurm_print_topo_info_msg() prints with whatever plugin the calling program loaded when
// it began: another one after the site changed its topology, and where topology.yaml names several, at times that of
// another topology (topology_g_topoinfo_print() of 25.05 to 26.05). A wrong reading must not end a daemon: so it is
// done by another process.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "slurm-plugin/observe/records.h"

namespace dl::observe {

// The switches that nodes hang on (topology.h); where topology.yaml names several topologies, of the default one first.
// Blocks until scontrol has answered, at most for about `limit`. Empty if Slurm has no topology; nothing if scontrol
// was not found, did not answer in time or failed, so that what was known before is kept. From any thread.
std::optional<std::vector<SwitchRecord>> ask_topology(std::chrono::milliseconds limit);

}  // namespace dl::observe
