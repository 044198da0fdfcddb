// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/buckets.h"

#include <cstring>
#include <string>
#include <utility>

#include "launcher/collectives/device.h"
#include "launcher/collectives/elements.h"

namespace dl::learner {

Buckets::Buckets(std::unique_ptr<Backend> group, int dtype, std::vector<size_t> counts, std::vector<Bucket> plan,
                 double timeout_s)
    : timeout_s_(timeout_s),
      group_(std::move(group)),
      dtype_(dtype),
      element_bytes_(element_size(dtype)),
      counts_(std::move(counts)),
      queue_(std::move(plan), counts_.size()),
      gradients_(counts_.size(), nullptr),
      staging_(queue_.buckets().size()) {}

Buckets::~Buckets() {
  bool left = abandoned_ && !flights_.empty();
  for (Flight& flight : flights_)
    if (!left && flight.request != nullptr) left = !flight.request->wait();
  if (!left) return;
  group_->abandon();
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  static std::vector<std::vector<std::vector<char>>>& kept = *new std::vector<std::vector<std::vector<char>>>;
  kept.push_back(std::move(staging_));
}

void Buckets::abandon() {
  abandoned_ = true;
  if (device_ != nullptr) device_->abandon();
  group_->abandon();
}

Status Buckets::ready(size_t parameter, void* gradient) {
  if (gradient == nullptr)
    return Error{Errc::kInvalid, "gradient: the pointer is NULL; allowed: memory of the host or of a GPU"};
  const Memory its = is_device_memory(gradient) ? Memory::kDevice : Memory::kHost;
  if (memory_ != Memory::kUnknown && its != memory_)
    return Error{Errc::kInvalid, "gradient: parameter " + std::to_string(parameter) + " is in memory of " +
                                     (its == Memory::kDevice ? "a GPU, others are not" : "the host, others are not") +
                                     "; allowed: the same for all"};
  DL_TRY(queue_.ready(parameter));
  memory_ = its;
  gradients_[parameter] = static_cast<char*>(gradient);
  while (queue_.can_start()) {
    DL_TRY(start(queue_.next()));
    queue_.advance();
  }
  // MPI moves data only during its calls, so each gradient gives the operations under way a turn.
  return poll();
}

Status Buckets::finish() {
  if (!queue_.all_started())
    return Error{Errc::kBusy, "parameter " + std::to_string(queue_.missing()) +
                                  " is not ready; allowed: to finish when the gradients of all parameters are ready"};
  size_t copied = 0;
  for (Flight& flight : flights_) {
    if (flight.request != nullptr) DL_TRY(flight.request->wait());
    flight.request.reset();
    if (!flight.copied) continue;
    scatter(flight.bucket);
    ++copied;
  }
  copied_last_ = copied;
  flights_.clear();
  queue_.reset();
  return {};
}

Operation Buckets::mean_of(void* data, size_t elements) const {
  Operation operation;
  operation.kind = Kind::kAllReduce;
  operation.out = data;
  operation.in = data;
  operation.count = elements;
  operation.dtype = dtype_;
  operation.op = DLLEARNER_MEAN;
  return operation;
}

Status Buckets::start(size_t bucket) {
  Flight flight;
  flight.bucket = bucket;
  if (memory_ == Memory::kDevice) {
    DL_TRY_ASSIGN(flight.request, start_on_device(bucket));
  } else {
    DL_TRY_ASSIGN(flight.request, start_on_host(bucket, &flight.copied));
  }
  flights_.push_back(std::move(flight));
  return {};
}

Result<std::unique_ptr<Request>> Buckets::start_on_host(size_t bucket, bool* copied) {
  *copied = !in_one_piece(bucket);
  if (*copied) gather(bucket);
  const Bucket& b = queue_.buckets()[bucket];
  return group_->start(mean_of(*copied ? staging_[bucket].data() : gradients_[b.first], b.elements));
}

// NCCL reduces gradients at several addresses in one launch, so they need not be copied together.
Result<std::unique_ptr<Request>> Buckets::start_on_device(size_t bucket) {
  if (device_ == nullptr) {
    DL_TRY_ASSIGN(device_, open_device_backend(group_.get(), timeout_s_));
  }
  const Bucket& b = queue_.buckets()[bucket];
  if (in_one_piece(bucket)) return device_->start(mean_of(gradients_[b.first], b.elements));
  std::vector<Operation> each;
  for (size_t i = b.first; i < b.first + b.parameters; ++i) each.push_back(mean_of(gradients_[i], counts_[i]));
  return device_->start_all(each);
}

Status Buckets::poll() {
  for (Flight& flight : flights_) {
    if (flight.request == nullptr) continue;
    DL_TRY_ASSIGN(const bool done, flight.request->test());
    if (done) flight.request.reset();
  }
  return {};
}

bool Buckets::in_one_piece(size_t bucket) const {
  const Bucket& b = queue_.buckets()[bucket];
  for (size_t i = b.first; i + 1 < b.first + b.parameters; ++i)
    if (gradients_[i] + counts_[i] * element_bytes_ != gradients_[i + 1]) return false;
  return true;
}

void Buckets::gather(size_t bucket) {
  const Bucket& b = queue_.buckets()[bucket];
  staging_[bucket].resize(b.elements * element_bytes_);
  char* to = staging_[bucket].data();
  for (size_t i = b.first; i < b.first + b.parameters; ++i) {
    std::memcpy(to, gradients_[i], counts_[i] * element_bytes_);
    to += counts_[i] * element_bytes_;
  }
}

void Buckets::scatter(size_t bucket) {
  const Bucket& b = queue_.buckets()[bucket];
  const char* from = staging_[bucket].data();
  for (size_t i = b.first; i < b.first + b.parameters; ++i) {
    std::memcpy(gradients_[i], from, counts_[i] * element_bytes_);
    from += counts_[i] * element_bytes_;
  }
}

}  // namespace dl::learner
