// SPDX-License-Identifier: Apache-2.0
// Chooses the partners: which rank keeps a copy of which rank's files. Pure.
#pragma once

#include <string>
#include <vector>

namespace dl::ckpt {

// For each rank the one, on the next node, that keeps a copy of its files; -1 if there is only one node. Nodes follow
// one another in the order of their first ranks, the last is followed by the first.
std::vector<int> choose_partners(const std::vector<std::string>& node_of_rank);

}  // namespace dl::ckpt
