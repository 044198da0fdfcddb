// SPDX-License-Identifier: Apache-2.0
// Reads the network from the output of `scontrol show topology` and `scontrol show topoconf`, of every version since
// 22.05. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slurm-plugin/observe/records.h"

namespace dl::observe {

constexpr size_t kMaxLeafSwitches = 100000;  // further ones are left out

// The switches that nodes are connected to, in the order of the text of `scontrol show topology`:
//   SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]     topology/tree: level 0 alone, the switches above hold the same
//                                                      nodes again
//   BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2 topology/block, from 23.11 on; an AggregatedBlock= holds nodes
//                                                      of several blocks and is left out
//   RingName=r1 Nodes=n[1-4] RingSize=4                topology/ring, from 26.05 on
// Other lines (a torus, which has no switches; messages) are left out. Empty where Slurm knows of no topology.
std::vector<SwitchRecord> parse_topology(std::string_view text);

// The names of the topologies in the YAML text of `scontrol show topoconf` (from 25.05 on, where topology.yaml can name
// several): the cluster's default first, the others in the order of the text. Names that scontrol would not accept as
// an argument are left out (empty ones, those with '=' in them or with '-' in front).
std::vector<std::string> parse_topology_names(std::string_view yaml);

}  // namespace dl::observe
