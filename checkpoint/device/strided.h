// SPDX-License-Identifier: Apache-2.0
// Maps a stored box (whose elements lie together, in C order) to memory that holds a box with any strides. It says
// which bytes are where for any range of the stored bytes, so that blocks can be handled in any order and by several
// threads.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "checkpoint/format/box.h"

namespace dl::ckpt {

// Strides in bytes of a box whose elements lie together in C order.
Dims dense_strides(const Dims& extent, uint64_t element_size);
// Whether elements with these strides lie together in C order; dimensions of size 1 do not matter.
bool is_dense(const Dims& extent, const Dims& strides, uint64_t element_size);
// Bytes from the first element of a box to that of another within it.
int64_t offset_within(const Box& box, const Box& part, const Dims& strides);

class StridedMap {
 public:
  // common = intersect(stored, held). `strides` are those of the memory, in bytes, one for each dimension.
  StridedMap(const Box& stored, const Box& held, const Box& common, const Dims& strides, uint64_t element_size);

  // Calls visit(at, memory, length) for each run of bytes within [from, to) of the stored box, with rising `at`: the
  // stored bytes [at, at + length) belong to [memory, memory + length), counted from the memory's first element.
  template <typename Visit>
  void each(uint64_t from, uint64_t to, Visit&& visit) const;

  // The number of bytes of [from, to) that are in `common`.
  uint64_t bytes(uint64_t from, uint64_t to) const;
  // `stored` points to the byte `from` of the box, `memory` to the first element that is held.
  void scatter(uint64_t from, uint64_t to, const unsigned char* stored, unsigned char* memory) const {
    each(from, to, [&](uint64_t at, int64_t offset, uint64_t length) {
      std::memcpy(memory + offset, stored + (at - from), length);
    });
  }
  void gather(uint64_t from, uint64_t to, const unsigned char* memory, unsigned char* stored) const {
    each(from, to, [&](uint64_t at, int64_t offset, uint64_t length) {
      std::memcpy(stored + (at - from), memory + offset, length);
    });
  }
  // Copies only the common bytes, one run after the other; returns the end of the copy.
  unsigned char* pack(uint64_t from, uint64_t to, const unsigned char* stored, unsigned char* out) const {
    each(from, to, [&](uint64_t at, int64_t, uint64_t length) {
      std::memcpy(out, stored + (at - from), length);
      out += length;
    });
    return out;
  }
  const unsigned char* unpack(uint64_t from, uint64_t to, const unsigned char* in, unsigned char* memory) const {
    each(from, to, [&](uint64_t, int64_t offset, uint64_t length) {
      std::memcpy(memory + offset, in, length);
      in += length;
    });
    return in;
  }

 private:
  struct Outer {
    uint64_t count;
    uint64_t stored_stride;
    int64_t memory_stride;
  };
  uint64_t stored_of(uint64_t run) const;
  uint64_t first_run_ending_after(uint64_t at) const;

  std::vector<Outer> outer_;  // the dimensions that are not part of a run, slowest first
  uint64_t stored_ = 0, length_ = 0, runs_ = 1;
  int64_t memory_ = 0;
};

template <typename Visit>
void StridedMap::each(uint64_t from, uint64_t to, Visit&& visit) const {
  uint64_t run = first_run_ending_after(from);
  if (run >= runs_) return;
  // The indices at which the first visited run begins.
  std::vector<uint64_t> index(outer_.size());
  uint64_t rest = run, at = stored_;
  int64_t memory = memory_;
  for (size_t d = outer_.size(); d-- > 0;) {
    index[d] = rest % outer_[d].count;
    rest /= outer_[d].count;
    at += index[d] * outer_[d].stored_stride;
    memory += static_cast<int64_t>(index[d]) * outer_[d].memory_stride;
  }
  for (; run < runs_ && at < to; ++run) {
    const uint64_t begin = std::max(at, from), end = std::min(at + length_, to);
    if (begin < end) visit(begin, memory + static_cast<int64_t>(begin - at), end - begin);
    for (size_t d = outer_.size(); d-- > 0;) {
      const Outer& outer = outer_[d];
      at += outer.stored_stride;
      memory += outer.memory_stride;
      if (++index[d] < outer.count) break;
      index[d] = 0;
      at -= outer.stored_stride * outer.count;
      memory -= outer.memory_stride * static_cast<int64_t>(outer.count);
    }
  }
}

}  // namespace dl::ckpt
