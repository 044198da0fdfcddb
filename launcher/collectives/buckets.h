// SPDX-License-Identifier: Apache-2.0
// Averages gradients bucket by bucket while the backward pass goes on. See dllearner_buckets_create.
#pragma once

#include <memory>
#include <vector>

#include "launcher/collectives/backend.h"
#include "launcher/collectives/bucket_plan.h"

namespace dl::learner {

class Buckets {
 public:
  // plan: made by plan_buckets() from counts. group: used by this object alone, so that its operations do not mix with
  // others. timeout_s: for the backend for memory of GPUs, which is opened over the group when the first bucket there
  // is started.
  Buckets(std::unique_ptr<Backend> group, int dtype, std::vector<size_t> counts, std::vector<Bucket> plan,
          double timeout_s);
  // Waits for operations under way. If that fails, MPI may still write to the staging memory, so that is never freed.
  ~Buckets();
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;
  Status ready(size_t parameter, void* gradient);
  Status finish();
  size_t total() const { return queue_.buckets().size(); }  // number of buckets
  size_t copied() const { return copied_last_; }            // how many of them the last finish() copied
  // To be called when another rank has ended: from now on nothing is waited for.
  void abandon();

 private:
  struct Flight {
    size_t bucket = 0;
    std::unique_ptr<Request> request;  // nullptr: done
    bool copied = false;               // the bucket goes through staging_
  };
  Status start(size_t bucket);
  Result<std::unique_ptr<Request>> start_on_host(size_t bucket, bool* copied);
  Result<std::unique_ptr<Request>> start_on_device(size_t bucket);
  Operation mean_of(void* data, size_t elements) const;
  Status poll();
  // Copy gradients to staging_[bucket] and back.
  void gather(size_t bucket);
  void scatter(size_t bucket);
  bool in_one_piece(size_t bucket) const;

  enum class Memory { kUnknown, kHost, kDevice };
  Memory memory_ = Memory::kUnknown;  // where gradients are: the same for all, and on all ranks
  double timeout_s_;
  std::unique_ptr<Backend> group_;
  std::unique_ptr<Backend> device_;  // nullptr: no bucket on a GPU was started yet
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
