// SPDX-License-Identifier: Apache-2.0
// SplitMix64, which is ready at once: std::mt19937 takes longer to begin than a whole change of an input does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace dl::ckpt::fuzz {

class Random {
 public:
  explicit Random(uint32_t seed) : state_(seed) {}
  uint32_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<uint32_t>(z >> 32);
  }
  // Precondition: n > 0.
  size_t below(size_t n) { return (*this)() % n; }
  // Of an array or a vector that is not empty.
  template <typename List>
  const auto& one_of(const List& choices) {
    return *(std::begin(choices) + static_cast<std::ptrdiff_t>(below(std::size(choices))));
  }

 private:
  uint64_t state_;
};

}  // namespace dl::ckpt::fuzz
