// SPDX-License-Identifier: Apache-2.0
// Makes the text in front of each of a learner's lines, for output to which several learners write. Pure.
#pragma once

#include <fmt/core.h>

#include <string>

namespace dl::supervise {

// "[1] " for one of several learners; with the number of a run beside which others write, "[2:1] ", and "[run 2] " if
// its learner is the only one. run 0: nobody else writes there.
inline std::string line_prefix(int world_size, int rank, int run) {
  if (run > 0) return world_size > 1 ? fmt::format("[{}:{}] ", run, rank) : fmt::format("[run {}] ", run);
  return world_size > 1 ? fmt::format("[{}] ", rank) : std::string();
}

}  // namespace dl::supervise
