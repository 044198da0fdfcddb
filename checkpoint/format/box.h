// SPDX-License-Identifier: Apache-2.0
// Boxes: the part of a tensor that one rank holds or one shard stores. Pure arithmetic. Nothing here overflows,
// whatever the numbers are, as long as the preconditions hold (numbers from outside have to pass volume() and within()
// first).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::ckpt {

using Dims = std::vector<int64_t>;

// The elements [offset, offset + extent) in each dimension. A box without dimensions is a scalar, one element.
struct Box {
  Dims offset;
  Dims extent;
  friend bool operator==(const Box& a, const Box& b) { return a.offset == b.offset && a.extent == b.extent; }
};

// No tensor, file or product of sizes may exceed this, so that sums of them do not overflow.
constexpr uint64_t kMaxBytes = uint64_t{1} << 60;

// Product of the sizes (1 for none); nullopt if a size is negative or the product exceeds kMaxBytes.
std::optional<uint64_t> volume(const Dims& sizes);
// The box that covers a whole tensor of this shape.
Box whole(const Dims& shape);
// True if the box has as many dimensions as the shape and lies inside it.
bool within(const Box& box, const Dims& shape);
// The part that both boxes share, or nullopt if there is none. Precondition: same number of dimensions, both within one
// shape.
std::optional<Box> intersect(const Box& a, const Box& b);
// OK if the boxes (all within the shape; empty ones are ignored) do not overlap and cover it all; otherwise kInvalid,
// with "overlap" or "leave a hole" and the place.
Status check_cover(const Dims& shape, const std::vector<Box>& boxes);
// "[4, 100]" and "[0:2, 0:100]", for messages.
std::string describe(const Dims& sizes);
std::string describe(const Box& box);

// A run of bytes that lie together both in the stored box and in the wanted one (both in C order).
struct Run {
  uint64_t source;       // offset in bytes in the stored box
  uint64_t destination;  // offset in bytes in the wanted box
  uint64_t length;       // bytes
};

// Walks through the common part of two boxes run by run, with rising source offset.
class RunWalker {
 public:
  // Precondition: common = intersect(stored, wanted), element_size > 0.
  RunWalker(const Box& stored, const Box& wanted, const Box& common, uint64_t element_size);
  // The next run, or nullopt at the end.
  std::optional<Run> next();

 private:
  struct Outer {
    int64_t count, index;
    uint64_t source_stride, destination_stride;  // bytes
  };
  std::vector<Outer> outer_;  // the dimensions that are not part of a run, slowest first
  uint64_t source_ = 0, destination_ = 0, length_ = 0;
  bool done_ = false;
};

}  // namespace dl::ckpt
