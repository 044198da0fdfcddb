// SPDX-License-Identifier: Apache-2.0
// Messages from one rank of the job to another, for parameter servers. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "launcher/collectives/backend.h"

namespace dl::learner {

// A message that has arrived and not been received yet.
struct Arrival {
  int from = 0;
  size_t bytes = 0;
};

class Channel {
 public:
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  virtual ~Channel() = default;
  virtual int rank() const = 0;  // among all ranks of the job
  virtual int size() const = 0;
  // count: up to 2^31 - 1 elements of dtype. The buffer is borrowed until the operation is done.
  virtual Result<std::unique_ptr<Request>> start_send(int to, int tag, const void* data, size_t count, int dtype) = 0;
  virtual Result<std::unique_ptr<Request>> start_receive(int from, int tag, void* data, size_t count, int dtype) = 0;
  // The next message with this tag from any rank, if one has arrived. Does not wait.
  virtual Result<std::optional<Arrival>> probe(int tag) = 0;
};

}  // namespace dl::learner
