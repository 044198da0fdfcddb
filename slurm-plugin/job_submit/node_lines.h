// SPDX-License-Identifier: Apache-2.0
// How many GPUs the nodes have according to the NodeName lines of slurm.conf. Pure, and careful: where the lines leave
// open what nodes there are or what GPUs they have, nothing is known.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl {

// Nodes with the same GPUs.
struct GpuNodes {
  int64_t nodes = 0;
  std::map<std::string, int64_t> gpus;  // of one node, by type; "": without a type
};

struct NodeLines {
  bool complete = false;  // false: there may be nodes or GPUs that `kinds` does not list
  std::vector<GpuNodes> kinds;
};

// Returns the text of a file, or none if it cannot be read.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;

// Reads slurm.conf as Slurm does: comments, continued lines, quoted values, Include files, DEFAULT lines; names of keys
// in any case. The result is incomplete if a file cannot be read, or if versions of Slurm look for it in different
// places; if a NodeName line has anything that is not understood here; and on clusters whose nodes or GPUs are not
// fixed (MaxNodeCount, NodeFeaturesPlugins).
NodeLines read_node_lines(const std::string& slurm_conf, const ReadFile& read);

// How many learners with `count` GPUs each (at least 1) of this type (empty: any) all nodes together can hold. -1: not
// known, also if no node has GPUs of the type.
int64_t most_learners(const NodeLines& lines, int64_t count, const std::string& type);
// The most GPUs of this type that one node has.
int64_t largest_node(const NodeLines& lines, const std::string& type);

}  // namespace dl
