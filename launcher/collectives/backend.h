// SPDX-License-Identifier: Apache-2.0
// What moves bytes between learners: MPI for host memory, NCCL for that of GPUs, nothing in a world of one. All of them
// take the same Operation, checked before (check_operation), and are used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "launcher/collectives/include/dllearner.h"

namespace dl::learner {

enum class Kind { kAllReduce, kBroadcast, kReduceScatter, kAllGather, kBarrier };

// in is unused by broadcast, both by barrier. count: as in dllearner.h (per rank, for reduce-scatter and all-gather).
struct Operation {
  Kind kind = Kind::kBarrier;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  int dtype = DLLEARNER_U8;
  int op = DLLEARNER_SUM;
  int root = 0;
};

// A started operation. Freed only when done or after an error; an unfinished one is left to the peer's fate.
class Request {
 public:
  Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  virtual ~Request() = default;
  virtual Result<bool> test() = 0;  // true: done
  virtual Status wait() = 0;        // kTimeout after the backend's time
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Result<std::unique_ptr<Request>> start(const Operation& operation) = 0;
  // Several all-reduces at once, one request for all; empty lists are not allowed. kUnsupported but for memory of GPUs.
  // In the header: the class must need nothing of this library, since the module for NCCL cannot reach what is not
  // exported.
  virtual Result<std::unique_ptr<Request>> start_all(const std::vector<Operation>& /*operations*/) {
    return Error{Errc::kUnsupported, "several operations at once: allowed with memory of a GPU"};
  }
  virtual Status run(const Operation& operation) {
    DL_TRY_ASSIGN(const auto request, start(operation));
    return request->wait();
  }
  // A channel of its own to the same peers: its operations are not ordered with those of this one. Collective.
  virtual Result<std::unique_ptr<Backend>> duplicate() = 0;
  // Another rank is gone or late: nothing may be waited for any more.
  virtual void abandon() {}
};

// kInvalid with a sentence: unknown dtype or op, a mean of integers, no buffer, count or root out of range.
Status check_operation(const Operation& operation, int size);

// A world of one: results are copies.
std::unique_ptr<Backend> make_alone_backend();

}  // namespace dl::learner
