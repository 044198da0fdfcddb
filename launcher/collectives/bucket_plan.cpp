// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/bucket_plan.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace dl::learner {
namespace {
constexpr size_t kMaxElements = std::numeric_limits<int>::max();  // in one operation: MPI counts in int
}  // namespace

Result<std::vector<Bucket>> plan_buckets(const std::vector<size_t>& counts, size_t element_bytes, size_t limit_bytes) {
  if (counts.empty()) return Error{Errc::kInvalid, "parameters: their number is 0; allowed: 1 or more"};
  if (limit_bytes == 0) limit_bytes = kDefaultBucketBytes;
  const size_t limit = std::min(kMaxElements, limit_bytes / element_bytes);
  std::vector<Bucket> buckets;
  for (size_t i = counts.size(); i-- > 0;) {
    if (counts[i] == 0 || counts[i] > kMaxElements)
      return Error{Errc::kInvalid, "parameter " + std::to_string(i) + " has " + std::to_string(counts[i]) +
                                       " elements; allowed: 1 to " + std::to_string(kMaxElements)};
    if (buckets.empty() || buckets.back().elements >= limit || counts[i] > limit - buckets.back().elements)
      buckets.push_back({i, 0, 0});
    buckets.back().first = i;
    ++buckets.back().parameters;
    buckets.back().elements += counts[i];
  }
  return buckets;
}

BucketQueue::BucketQueue(std::vector<Bucket> buckets, size_t parameters)
    : buckets_(std::move(buckets)), bucket_of_(parameters), ready_(parameters) {
  for (size_t b = 0; b < buckets_.size(); ++b)
    for (size_t i = 0; i < buckets_[b].parameters; ++i) bucket_of_[buckets_[b].first + i] = b;
  reset();
}

Status BucketQueue::ready(size_t parameter) {
  if (parameter >= ready_.size())
    return Error{Errc::kInvalid, "parameter " + std::to_string(parameter) + " does not exist; allowed: 0 to " +
                                     std::to_string(ready_.size() - 1)};
  if (ready_[parameter])
    return Error{Errc::kBusy, "parameter " + std::to_string(parameter) + " is ready already; call finish first"};
  ready_[parameter] = true;
  --waiting_[bucket_of_[parameter]];
  return {};
}

bool BucketQueue::can_start() const {
  return next_ < buckets_.size() && waiting_[next_] == 0;
}

size_t BucketQueue::missing() const {
  return static_cast<size_t>(std::find(ready_.begin(), ready_.end(), false) - ready_.begin());
}

void BucketQueue::reset() {
  std::fill(ready_.begin(), ready_.end(), false);
  waiting_.clear();
  for (const Bucket& bucket : buckets_) waiting_.push_back(bucket.parameters);
  next_ = 0;
}

}  // namespace dl::learner
