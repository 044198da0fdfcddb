// SPDX-License-Identifier: Apache-2.0
// Merges lines of many learners into one sequence, in which a line that several learners wrote alike is shown once:
// "[0-1023] epoch 1". Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace dl::logs {

// A learner's lines that were read and not shown yet, oldest first. The first `due` of them are to be shown now; those
// behind them are of a later time, and are shown now only together with the same line of another learner.
struct Waiting {
  int rank = 0;
  std::deque<std::string> lines;
  size_t due = 0;
};

// `ranks`, ascending, have all written this line.
using ShowLine = std::function<void(const std::vector<int>& ranks, const std::string& line)>;

// Shows all that is due and removes it; each learner's lines keep their order. `alike`: false shows each line by
// itself. `learners` is sorted by rank. Takes time in proportion to the lines that wait.
void show_due(std::vector<Waiting>* learners, bool alike, const ShowLine& show);

// {0, 1, 2, 7} -> "0-2,7"
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace dl::logs
