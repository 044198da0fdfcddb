// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/buckets.h"

#include <cstring>
#include <string>
#include <utility>

#include "launcher/collectives/elements.h"

namespace dl::learner {

Buckets::Buckets(std::unique_ptr<Backend> group, int dtype, std::vector<size_t> counts, std::vector<Bucket> plan)
    : group_(std::move(group)),
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
  group_->abandon();
}

Status Buckets::ready(size_t parameter, void* gradient) {
  if (gradient == nullptr) return Error{Errc::kInvalid, "gradient: it is NULL; allowed: host memory"};
  DL_TRY(queue_.ready(parameter));
  gradients_[parameter] = static_cast<char*>(gradient);
  while (queue_.can_start()) {
    DL_TRY(start(queue_.next()));
    queue_.advance();
  }
  // MPI moves bytes within its calls alone: each gradient gives those in flight a turn.
  return poll();
}

Status Buckets::finish() {
  if (!queue_.all_started())
    return Error{Errc::kBusy, "parameter " + std::to_string(queue_.missing()) + " is not ready"};
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

Status Buckets::start(size_t bucket) {
  Flight flight;
  flight.bucket = bucket;
  flight.copied = !in_one_piece(bucket);
  if (flight.copied) gather(bucket);
  Operation operation;
  operation.kind = Kind::kAllReduce;
  operation.out = flight.copied ? staging_[bucket].data() : gradients_[queue_.buckets()[bucket].first];
  operation.in = operation.out;
  operation.count = queue_.buckets()[bucket].elements;
  operation.dtype = dtype_;
  operation.op = DLLEARNER_MEAN;
  DL_TRY_ASSIGN(flight.request, group_->start(operation));
  flights_.push_back(std::move(flight));
  return {};
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
