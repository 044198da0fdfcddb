// SPDX-License-Identifier: Apache-2.0
// Chooses the partners: which rank keeps a copy of which other rank's files. Pure.
#pragma once

#include <string>
#include <vector>

namespace dl::ckpt {

// For each rank, the rank on the next node that keeps a copy of its files; -1 if there is only one node. The nodes form
// a ring in the order of their first ranks.
std::vector<int> choose_partners(const std::vector<std::string>& node_of_rank);

}  // namespace dl::ckpt
