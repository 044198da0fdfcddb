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
  // timeout_s: of a backend for memory of GPUs, which is opened over the group when the first bucket of such is
  // started.
  Buckets(std::unique_ptr<Backend> group, int dtype, std::vector<size_t> counts, std::vector<Bucket> plan,
          double timeout_s);
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
  Result<std::unique_ptr<Request>> start_on_host(size_t bucket, bool* copied);
  Result<std::unique_ptr<Request>> start_on_device(size_t bucket);
  Operation mean_of(void* data, size_t elements) const;
  Status poll();
  // Copies between the gradients and staging_[bucket].
  void gather(size_t bucket);
  void scatter(size_t bucket);
  bool in_one_piece(size_t bucket) const;

  enum class Memory { kUnknown, kHost, kDevice };
  Memory memory_ = Memory::kUnknown;  // of the gradients: the same for all, and on all ranks
  double timeout_s_;
  std::unique_ptr<Backend> group_;
  std::unique_ptr<Backend> device_;  // nullptr: no bucket of a GPU was met
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
