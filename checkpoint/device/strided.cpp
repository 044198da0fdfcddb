// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/device/strided.h"

namespace dl::ckpt {

Dims dense_strides(const Dims& extent, uint64_t element_size) {
  Dims strides(extent.size());
  auto stride = static_cast<int64_t>(element_size);
  for (size_t d = extent.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(extent[d], 1);
  }
  return strides;
}

bool is_dense(const Dims& extent, const Dims& strides, uint64_t element_size) {
  const Dims dense = dense_strides(extent, element_size);
  for (size_t d = 0; d < extent.size(); ++d)
    if (extent[d] != 1 && strides[d] != dense[d]) return false;
  return true;
}

int64_t offset_within(const Box& box, const Box& part, const Dims& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) offset += (part.offset[d] - box.offset[d]) * strides[d];
  return offset;
}

StridedMap::StridedMap(const Box& stored, const Box& held, const Box& common, const Dims& strides,
                       uint64_t element_size)
    : length_(element_size), memory_(offset_within(held, common, strides)) {
  const Dims stored_strides = dense_strides(stored.extent, element_size);
  for (size_t d = common.extent.size(); d-- > 0;) {
    const auto count = static_cast<uint64_t>(common.extent[d]);
    const auto stride = static_cast<uint64_t>(stored_strides[d]);
    stored_ += static_cast<uint64_t>(common.offset[d] - stored.offset[d]) * stride;
    if (count == 1) continue;
    // An inner dimension becomes part of the run if its elements lie together on both sides.
    if (outer_.empty() && stride == length_ && strides[d] == stored_strides[d]) {
      length_ *= count;
    } else {
      outer_.insert(outer_.begin(), Outer{count, stride, strides[d]});
    }
  }
  for (const Outer& outer : outer_) runs_ *= outer.count;
}

uint64_t StridedMap::stored_of(uint64_t run) const {
  uint64_t at = stored_;
  for (size_t d = outer_.size(); d-- > 0;) {
    at += run % outer_[d].count * outer_[d].stored_stride;
    run /= outer_[d].count;
  }
  return at;
}

uint64_t StridedMap::first_run_ending_after(uint64_t at) const {
  uint64_t low = 0, high = runs_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (stored_of(middle) + length_ > at) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

uint64_t StridedMap::bytes(uint64_t from, uint64_t to) const {
  if (from >= to || runs_ == 0) return 0;
  // Only the first and the last run can be cut by `from` and `to`.
  const uint64_t first = first_run_ending_after(from), end = first_run_ending_after(to);
  uint64_t total = end > first ? (end - first) * length_ : 0;
  if (first < runs_ && first < end && stored_of(first) < from) total -= from - stored_of(first);
  if (end < runs_ && stored_of(end) < to) total += to - std::max(stored_of(end), end == first ? from : 0);
  return total;
}

}  // namespace dl::ckpt
