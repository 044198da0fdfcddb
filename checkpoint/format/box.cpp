// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/box.h"

#include <algorithm>
#include <numeric>

namespace dl::ckpt {

std::optional<uint64_t> volume(const Dims& sizes) {
  uint64_t product = 1;
  bool empty = false;
  for (int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) empty = true;
  }
  if (empty) return 0;
  for (int64_t size : sizes) {
    if (__builtin_mul_overflow(product, static_cast<uint64_t>(size), &product) || product > kMaxBytes)
      return std::nullopt;
  }
  return product;
}

Box whole(const Dims& shape) {
  return Box{Dims(shape.size(), 0), shape};
}

bool within(const Box& box, const Dims& shape) {
  if (box.offset.size() != shape.size() || box.extent.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (box.offset[d] < 0 || box.extent[d] < 0) return false;
    if (box.offset[d] > shape[d] || box.extent[d] > shape[d] - box.offset[d]) return false;
  }
  return true;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  Box common;
  common.offset.resize(a.offset.size());
  common.extent.resize(a.offset.size());
  for (size_t d = 0; d < a.offset.size(); ++d) {
    const int64_t low = std::max(a.offset[d], b.offset[d]);
    const int64_t high = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    if (high <= low) return std::nullopt;
    common.offset[d] = low;
    common.extent[d] = high - low;
  }
  return common;
}

std::string describe(const Dims& sizes) {
  std::string text = "[";
  for (size_t d = 0; d < sizes.size(); ++d) text += (d ? ", " : "") + std::to_string(sizes[d]);
  return text + "]";
}

std::string describe(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.offset.size(); ++d) {
    // A box that is refused may have any numbers.
    int64_t end = 0;
    const bool fits = !__builtin_add_overflow(box.offset[d], box.extent[d], &end);
    text += (d ? ", " : "") + std::to_string(box.offset[d]) + ":" +
            (fits ? std::to_string(end) : std::to_string(box.offset[d]) + "+" + std::to_string(box.extent[d]));
  }
  return text + "]";
}

namespace {

// Looks for two boxes that overlap. Boxes are split into groups that occupy different ranges of dimension `dim`; then
// each group is split by the next dimension. This is linear for any grid of shards, and all real shardings are grids.
// Boxes of a group that no dimension separates are compared pair by pair.
const Box* find_overlap(std::vector<const Box*> boxes, size_t dim, const Box** other) {
  if (boxes.size() < 2) return nullptr;
  const size_t ndim = boxes[0]->offset.size();
  if (dim == ndim) {
    // Only boxes that no dimension has separated are left here.
    for (size_t i = 0; i < boxes.size(); ++i) {
      for (size_t j = i + 1; j < boxes.size(); ++j) {
        if (intersect(*boxes[i], *boxes[j])) {
          *other = boxes[j];
          return boxes[i];
        }
      }
    }
    return nullptr;
  }
  std::sort(boxes.begin(), boxes.end(), [dim](const Box* a, const Box* b) { return a->offset[dim] < b->offset[dim]; });
  std::vector<const Box*> group;
  int64_t group_end = 0;
  for (const Box* box : boxes) {
    if (!group.empty() && box->offset[dim] >= group_end) {
      if (const Box* found = find_overlap(std::move(group), dim + 1, other)) return found;
      group.clear();
    }
    group_end =
        group.empty() ? box->offset[dim] + box->extent[dim] : std::max(group_end, box->offset[dim] + box->extent[dim]);
    group.push_back(box);
  }
  return find_overlap(std::move(group), dim + 1, other);
}

}  // namespace

Status check_cover(const Dims& shape, const std::vector<Box>& boxes) {
  uint64_t covered = 0;
  std::vector<const Box*> nonempty;
  for (const Box& box : boxes) {
    const uint64_t part = volume(box.extent).value_or(0);
    if (part == 0) continue;
    covered += part;
    nonempty.push_back(&box);
    if (covered > 2 * kMaxBytes) break;
  }
  const uint64_t total = volume(shape).value_or(0);
  const Box* other = nullptr;
  if (const Box* box = find_overlap(nonempty, 0, &other))
    return Error{Errc::kInvalid, "the parts " + describe(*box) + " and " + describe(*other) + " overlap"};
  if (covered != total)
    return Error{Errc::kInvalid, "the parts leave a hole in " + describe(shape) + ": they hold " +
                                     std::to_string(covered) + " of " + std::to_string(total) + " elements"};
  return {};
}

RunWalker::RunWalker(const Box& stored, const Box& wanted, const Box& common, uint64_t element_size) {
  const size_t ndim = common.extent.size();
  // Bytes between neighbours in each dimension, in both boxes.
  uint64_t source_stride = element_size, destination_stride = element_size;
  bool growing = true;  // inner dimensions that are whole in both boxes become part of the run
  length_ = element_size;
  for (size_t d = ndim; d-- > 0;) {
    source_ += static_cast<uint64_t>(common.offset[d] - stored.offset[d]) * source_stride;
    destination_ += static_cast<uint64_t>(common.offset[d] - wanted.offset[d]) * destination_stride;
    const auto count = static_cast<uint64_t>(common.extent[d]);
    if (growing) {
      length_ *= count;
      growing = common.extent[d] == stored.extent[d] && common.extent[d] == wanted.extent[d];
    } else if (count > 1) {
      outer_.insert(outer_.begin(), Outer{common.extent[d], 0, source_stride, destination_stride});
    }
    source_stride *= static_cast<uint64_t>(stored.extent[d]);
    destination_stride *= static_cast<uint64_t>(wanted.extent[d]);
  }
  done_ = length_ == 0;
}

std::optional<Run> RunWalker::next() {
  if (done_) return std::nullopt;
  const Run run{source_, destination_, length_};
  size_t d = outer_.size();
  while (d > 0) {
    Outer& outer = outer_[d - 1];
    if (++outer.index < outer.count) {
      source_ += outer.source_stride;
      destination_ += outer.destination_stride;
      break;
    }
    const auto back = static_cast<uint64_t>(outer.count - 1);
    source_ -= outer.source_stride * back;
    destination_ -= outer.destination_stride * back;
    outer.index = 0;
    --d;
  }
  done_ = d == 0;
  return run;
}

}  // namespace dl::ckpt
