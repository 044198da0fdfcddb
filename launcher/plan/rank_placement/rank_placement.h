// SPDX-License-Identifier: Apache-2.0
// Rank placement: which rank runs on which node of the allocation. Pure functions in one table (registry.cpp).
#pragma once

#include <string>
#include <vector>

namespace dl::plan {

// capacity[n] >= 0: how many learners node n may hold; their sum is at least `learners` >= 1. Returns a node index for
// each rank 0..learners-1, none more often than its capacity. Rank 0 must be on the lowest index that is used.
using PlaceFunction = std::vector<int> (*)(const std::vector<int>& capacity, int learners);

struct RankPlacement {
  const char* name;
  const char* summary;  // one line, for --help
  PlaceFunction place;
};

// nullptr if there is no policy of this name.
const RankPlacement* find_rank_placement(const std::string& name);
// "block, cyclic"
std::string rank_placement_names();

std::vector<int> place_block(const std::vector<int>& capacity, int learners);
std::vector<int> place_cyclic(const std::vector<int>& capacity, int learners);

}  // namespace dl::plan
