// SPDX-License-Identifier: Apache-2.0
#include "common/contract/batch_split.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace dl {
namespace {

constexpr int64_t kMorePasses = 64;  // numbers of passes that are tried beyond the fewest

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The multiple of `step` in [low, high] that is nearest to `target`; the smaller one if two are equally near.
std::optional<int64_t> nearest(int64_t step, int64_t low, int64_t high, int64_t target) {
  const int64_t first = divide_up(low, step) * step;
  const int64_t last = high / step * step;
  if (first > last) return std::nullopt;
  const int64_t below = std::clamp(target / step * step, first, last);
  const int64_t above = std::min(below + step, last);
  return above - target < target - below ? above : below;
}

int64_t distance(int64_t a, int64_t b) {
  return a < b ? b - a : a - b;
}

// The split nearest to `target` in which all passes of all learners have the same size; none if there is no such split.
std::optional<BatchSplit> even_split(const BatchRange& range, int64_t learners, int64_t low, int64_t target) {
  const int64_t high = range.largest();
  const int64_t fewest = range.micro > 0 ? divide_up(std::clamp(target, low, high), learners * range.micro) : 1;
  const int64_t most = range.micro > 0 ? std::min(2 * fewest, fewest + kMorePasses) : 1;
  std::optional<BatchSplit> best;
  // One pass less than the fewest is tried, too: a batch a little below the target may need only that many.
  for (int64_t passes = std::max<int64_t>(1, fewest - 1); passes <= most; ++passes) {
    const int64_t fits = range.micro > 0 ? std::min(high, learners * passes * range.micro) : high;
    const auto batch = nearest(std::lcm(range.multiple, learners * passes), low, fits, target);
    if (!batch || (best && distance(*batch, target) >= distance(best->batch, target))) continue;
    best = BatchSplit{*batch, passes};
    if (*batch == target) break;
  }
  return best;
}

// Newton's method for x >= 1. slurmstepd loads this code, and it must not bring libm with it.
double square_root(double x) {
  double root = x;
  for (int i = 0; i < 64; ++i) root = (root + x / root) / 2;
  return root;
}

}  // namespace

int64_t batch_target(const BatchRange& range, int least, int learners) {
  return std::clamp(range.min * learners / least, range.smallest(), range.largest());
}

Result<BatchSplit> split_batch(const BatchRange& range, int learners, int64_t target) {
  const int64_t high = range.largest();
  const int64_t low = std::max(range.smallest(), divide_up(learners, range.multiple) * range.multiple);
  if (low > high) {
    DL_TRY(check_batch(range, {learners, learners}));
    return Error{Errc::kInternal, "no batch of the range " + format_batch(range) + " has a sample for each learner"};
  }
  target = std::clamp(target, low, high);
  if (const auto even = even_split(range, learners, low, target)) return *even;
  auto batch = nearest(std::lcm(range.multiple, int64_t{learners}), low, high, target);
  if (!batch) batch = nearest(range.multiple, low, high, target);
  BatchSplit split;
  split.batch = *batch;
  if (range.micro > 0) split.accumulation = std::min(divide_up(*batch, learners * range.micro), *batch / learners);
  return split;
}

Result<BatchSplit> split_of_job(const BatchRange& range, int least, int learners) {
  return split_batch(range, learners, batch_target(range, std::min(least, learners), learners));
}

int64_t part_size(int64_t total, int64_t number, int64_t parts) {
  return total / parts + (number < total % parts ? 1 : 0);
}

int64_t local_batch(const BatchSplit& split, int rank, int learners) {
  // The sizes of two passes differ by at most one sample: `larger` passes have size + 1.
  const int64_t larger = split.batch % split.accumulation;
  const int64_t size = split.batch / split.accumulation;
  return larger * part_size(size + 1, rank, learners) + (split.accumulation - larger) * part_size(size, rank, learners);
}

double lr_scale(const BatchRange& range, int64_t batch, double noise) {
  const double scale = static_cast<double>(batch) / static_cast<double>(range.min);
  switch (range.rule) {
    case BatchRule::kLinear:
      return scale;
    case BatchRule::kSqrt:
      return square_root(scale);
    case BatchRule::kAdascale:
      // This test also catches NaN.
      if (!(noise >= 0)) return 1;
      if (noise > 1e300) return scale;
      return (noise / static_cast<double>(range.min) + 1) / (noise / static_cast<double>(batch) + 1);
    case BatchRule::kNone:
      break;
  }
  return 1;
}

std::string format_lr_scale(double scale) {
  return fmt::format("{:.9g}", scale);
}

}  // namespace dl
