// SPDX-License-Identifier: Apache-2.0
// Finds the learner that the others wait for, when several make no progress. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dl::supervise {

struct StandStill {
  int rank = 0;
  int64_t step = -1;      // train step announced, -1 = none
  char state = '?';       // of its main thread, as in /proc: R, S, D, T, ...; '?' = not known
  int64_t silent_ms = 0;  // how long it has made no progress
};

struct BehindLearner {
  int rank = 0;
  std::string text;  // "no progress for 60 s at train step 41, where others are at 42"
};

// The learner at the lowest train step; among equals the one whose main thread does not wait for others: stopped
// (T, t), waiting for a disk (D), running (R), in this order; else the one that has been silent longest. None if the
// list is empty.
std::optional<BehindLearner> who_is_behind(const std::vector<StandStill>& learners);

}  // namespace dl::supervise
