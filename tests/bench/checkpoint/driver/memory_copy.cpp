// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/bench/checkpoint/driver/clock.h"
#include "tests/bench/checkpoint/driver/limits.h"

namespace bench {

Copier::Copier(State& state) : state_(state) {
  for (const Tensor& tensor : state.tensors()) {
    to_.push_back(allocate(tensor.bytes));
    std::memset(to_.back().get(), 1, tensor.bytes);
  }
}

double Copier::copy(unsigned threads) {
  // The bytes [begin, end) of the tensors laid end to end.
  const auto part = [this](uint64_t begin, uint64_t end) {
    uint64_t at = 0;
    for (size_t i = 0; i < to_.size(); ++i) {
      const Tensor& tensor = state_.tensors()[i];
      const uint64_t from = std::max(begin, at), to = std::min(end, at + tensor.bytes);
      if (from < to) std::memcpy(to_[i].get() + (from - at), tensor.data.get() + (from - at), to - from);
      at += tensor.bytes;
    }
  };
  const auto begin = Clock::now();
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; ++i)
    helpers.emplace_back(part, state_.bytes() * i / threads, state_.bytes() * (i + 1) / threads);
  part(0, state_.bytes() / threads);
  for (std::thread& helper : helpers) helper.join();
  return seconds_since(begin);
}

}  // namespace bench
