// SPDX-License-Identifier: Apache-2.0
// Numbers for states that are made up: the same ones for a seed on each machine.
#pragma once

#include <cstdint>
#include <random>

namespace dl::bench {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15U + 1) {}
  int from(int low, int high) { return low + static_cast<int>(engine_() % static_cast<uint64_t>(high - low + 1)); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace dl::bench
