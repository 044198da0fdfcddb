// SPDX-License-Identifier: Apache-2.0
// Decides which gradients are averaged together, and when. Pure; the answer is the same on all ranks.
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/result.h"

namespace dl::learner {

constexpr size_t kDefaultBucketBytes = size_t{25} << 20;  // the default of PyTorch's DistributedDataParallel

// The parameters first to first + parameters - 1, which have `elements` elements together.
struct Bucket {
  size_t first = 0;
  size_t parameters = 0;
  size_t elements = 0;
};

// Buckets in the order in which they are started: from the last parameter to the first, since backward runs so. Each
// has as many as fit into limit_bytes, and at least one.
Result<std::vector<Bucket>> plan_buckets(const std::vector<size_t>& counts, size_t element_bytes, size_t limit_bytes);

// Tells which bucket may start. Gradients get ready in any order, which differs between ranks; buckets start in the
// order of the plan on all ranks. Otherwise ranks would wait for one another in different operations.
class BucketQueue {
 public:
  BucketQueue(std::vector<Bucket> buckets, size_t parameters);
  // Marks a parameter's gradient as ready. kBusy if it was ready already, kInvalid if there is no such parameter.
  Status ready(size_t parameter);
  // True if all gradients of bucket next() are ready. After starting it, call advance().
  bool can_start() const;
  size_t next() const { return next_; }
  void advance() { ++next_; }
  bool all_started() const { return next_ == buckets_.size(); }
  // The first parameter whose gradient is not ready; the number of parameters if all are.
  size_t missing() const;
  void reset();
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  // by parameter
  std::vector<bool> ready_;
  std::vector<size_t> waiting_;  // by bucket: number of parameters that are not ready
  size_t next_ = 0;
};

}  // namespace dl::learner
