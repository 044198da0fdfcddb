// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine for the same seed. The distributions of <random> are not, so the
// few that are needed are written here.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace dl::sim {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15U + 1) {}

  // 0 <= x < 1.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }
  // low <= n <= high.
  int64_t from(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(uniform() * static_cast<double>(high - low + 1));
  }
  // Seconds until the next event of a Poisson process: exponentially distributed with this mean, plus 1.
  int64_t after(int64_t mean_s) {
    return 1 + static_cast<int64_t>(-std::log(1 - uniform()) * static_cast<double>(mean_s));
  }
  // Mean 0, standard deviation 1.
  double normal() {
    constexpr double kTwoPi = 6.283185307179586;
    return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(kTwoPi * uniform());
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace dl::sim
