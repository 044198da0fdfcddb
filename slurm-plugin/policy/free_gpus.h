// SPDX-License-Identifier: Apache-2.0
// Free GPUs by node, and how many learners of a size fit on them. Counts are kept up to date as GPUs are taken and
// given back, since a decision asks for the same few sizes thousands of times.
#pragma once

#include <utility>
#include <vector>

#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policy {

class FreeGpus {
 public:
  // What running jobs leave free. Unusable nodes have nothing free.
  explicit FreeGpus(const ClusterState& state);

  // Free GPUs on a node, of a type, or in all; nodes_of(): the indexes of all nodes of a type.
  int on(int node) const { return free_[node]; }
  const std::vector<int>& nodes_of(int type) const { return nodes_of_[type]; }
  const Node& node(int index) const { return (*nodes_)[index]; }
  int total(int type) const { return total_[type]; }
  int total() const;

  // Learners of so many GPUs each that fit on the nodes of a type.
  int slots(int type, int gpus_per_learner) const;

  void take(const std::vector<Part>& parts, int gpus_per_learner) { add(parts, -gpus_per_learner); }
  void give(const std::vector<Part>& parts, int gpus_per_learner) { add(parts, gpus_per_learner); }
  void add(int node, int gpus);  // negative: takes. No effect on an unusable node.

 private:
  struct Count {
    int type;
    int size;
    int slots;
  };
  void add(const std::vector<Part>& parts, int gpus_per_learner);

  const std::vector<Node>* nodes_;
  std::vector<int> free_;
  std::vector<std::vector<int>> nodes_of_;
  std::vector<int> total_;
  mutable std::vector<Count> counts_;
};

// What is free of one type.
struct FreeOfType {
  int type = 0;
  int gpus = 0;       // free
  int nodes = 0;      // with a free GPU
  int most = 0;       // on one node
  int node_gpus = 0;  // of the largest node that something may start on
  int kept = 0;       // not in use, but on nodes where nothing may start: spares (Slurm reservations), drained, down
  // fragmentation() for learners of 1, 2, 4, ... GPUs, and of `node_gpus`.
  std::vector<std::pair<int, double>> by_size;

  // By the largest size: the share of the free GPUs that are not on wholly free nodes.
  double fragmentation() const { return by_size.empty() ? 0 : by_size.back().second; }
};
std::vector<FreeOfType> free_by_type(const ClusterState& state);

// The share of a type's free GPUs, 0 to 1, that no learner of this size can use: 0 when nothing is free.
double fragmentation(const FreeGpus& free, int type, int gpus_per_learner);

}  // namespace dl::policy
