// SPDX-License-Identifier: Apache-2.0
// Gradients averaged bucket by bucket while backward goes on. See dllearner_buckets_create.
#pragma once

#include <memory>
#include <vector>

#include "launcher/collectives/backend.h"
#include "launcher/collectives/bucket_plan.h"

namespace dl::learner {

class Buckets {
 public:
  // counts: checked by plan_buckets. group: of its own, so that its operations mix with no others.
  Buckets(std::unique_ptr<Backend> group, int dtype, std::vector<size_t> counts, std::vector<Bucket> plan);
  // Waits for what is in flight; if that fails, MPI may still write there, so the staging memory is left to it.
  ~Buckets();
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;
  Status ready(size_t parameter, void* gradient);
  Status finish();
  size_t total() const { return queue_.buckets().size(); }
  size_t copied() const { return copied_last_; }
  // Another rank is gone: waits for nothing any more.
  void abandon();

 private:
  struct Flight {
    size_t bucket = 0;
    std::unique_ptr<Request> request;  // null: done
    bool copied = false;
  };
  Status start(size_t bucket);
  Status poll();
  // Copies between the gradients and staging_[bucket].
  void gather(size_t bucket);
  void scatter(size_t bucket);
  bool in_one_piece(size_t bucket) const;

  std::unique_ptr<Backend> group_;
  int dtype_;
  size_t element_bytes_;
  std::vector<size_t> counts_;
  BucketQueue queue_;
  std::vector<char*> gradients_;
  std::vector<std::vector<char>> staging_;  // by bucket; empty until it is needed, then kept
  std::vector<Flight> flights_;
  size_t copied_last_ = 0;
  bool abandoned_ = false;
};

}  // namespace dl::learner
