// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/checkpoint/driver/state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace bench {
namespace {

constexpr int64_t kColumns = 1024;

// SplitMix64 by position, so that a rank fills its rows without the others'.
uint64_t random_bits(uint64_t at) {
  uint64_t z = (at + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

void Free::operator()(void* memory) const {
  std::free(memory);
}

Memory allocate(size_t bytes) {
  void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!memory) throw std::bad_alloc();
  return Memory(static_cast<unsigned char*>(memory));
}

State::State(size_t tensors, uint64_t bytes, int rank, int world, bool replicated) : replicated_(replicated) {
  const auto elements = static_cast<int64_t>(bytes / tensors / sizeof(float));
  const int64_t columns = elements % kColumns == 0 ? kColumns : 1;
  const int64_t rows = elements / columns;
  for (size_t i = 0; i < tensors; ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model/layers.%05zu.weight", i);
    const int64_t first = replicated ? 0 : rows * rank / world;
    const int64_t last = replicated ? rows : rows * (rank + 1) / world;
    Tensor tensor;
    tensor.name = name;
    tensor.shape = {rows};
    tensor.offset = {first};
    tensor.extent = {last - first};
    if (columns > 1) {
      tensor.shape.push_back(columns);
      tensor.offset.push_back(0);
      tensor.extent.push_back(columns);
    }
    const auto words = static_cast<size_t>((last - first) * columns);
    tensor.bytes = words * sizeof(float);
    tensor.data = allocate(tensor.bytes);
    const uint64_t begin =
        static_cast<uint64_t>(i) * static_cast<uint64_t>(elements) + static_cast<uint64_t>(first * columns);
    for (size_t word = 0; word < words; ++word) {
      const auto bits = static_cast<uint32_t>(random_bits(begin + word));
      std::memcpy(tensor.data.get() + word * sizeof bits, &bits, sizeof bits);
    }
    bytes_ += tensor.bytes;
    tensors_.push_back(std::move(tensor));
  }
}

void State::touch(size_t count) {
  for (size_t i = 0; i < std::min(count, tensors_.size()); ++i) {
    Tensor& tensor = tensors_[i];
    for (size_t at = 0; at + sizeof(uint32_t) <= tensor.bytes; at += 4096) {
      uint32_t word;
      std::memcpy(&word, tensor.data.get() + at, sizeof word);
      word = word * 1664525U + 1013904223U;
      std::memcpy(tensor.data.get() + at, &word, sizeof word);
    }
  }
}

void State::clobber() {
  for (Tensor& tensor : tensors_) std::memset(tensor.data.get(), 0, tensor.bytes);
}

uint64_t State::sum() const {
  uint64_t total = 0;
  for (const Tensor& tensor : tensors_)
    for (size_t at = 0; at + sizeof(uint32_t) <= tensor.bytes; at += sizeof(uint32_t)) {
      uint32_t word;
      std::memcpy(&word, tensor.data.get() + at, sizeof word);
      total += word;
    }
  return total;
}

}  // namespace bench
