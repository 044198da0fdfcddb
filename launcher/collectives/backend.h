// SPDX-License-Identifier: Apache-2.0
// The interface to the libraries that move data between learners: MPI for host memory, NCCL for memory of GPUs, none in
// a world of one. Each takes Operations that check_operation() has accepted, and is used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "launcher/collectives/include/dllearner.h"

namespace dl::learner {

enum class Kind { kAllReduce, kBroadcast, kReduceScatter, kAllGather, kBarrier };

// A collective operation. Broadcast does not use `in`, barrier uses neither buffer. count: as in dllearner.h (per rank,
// for reduce-scatter and all-gather). Buffers are borrowed until the operation is done.
struct Operation {
  Kind kind = Kind::kBarrier;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  int dtype = DLLEARNER_U8;
  int op = DLLEARNER_SUM;
  int root = 0;
};

// A started operation. Free it only when it is done or has failed: an unfinished one is not cancelled, and its buffers
// may still be used.
class Request {
 public:
  Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  virtual ~Request() = default;
  virtual Result<bool> test() = 0;  // true: done
  virtual Status wait() = 0;        // kTimeout after the backend's timeout_s
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
  // Starts several all-reduces at once, with one request for all; the list must not be empty. kUnsupported, except for
  // memory of GPUs. Defined in the header because the module for NCCL cannot use symbols that this library does not
  // export.
  virtual Result<std::unique_ptr<Request>> start_all(const std::vector<Operation>& /*operations*/) {
    return Error{
        Errc::kUnsupported,
        "several operations at once need memory of a GPU; allowed with memory of the host: one operation at a time"};
  }
  virtual Status run(const Operation& operation) {
    DL_TRY_ASSIGN(const auto request, start(operation));
    return request->wait();
  }
  // A second backend to the same peers, whose operations need not be in one order with those of this one. Collective.
  virtual Result<std::unique_ptr<Backend>> duplicate() = 0;
  // To be called when another rank has ended or is late: from now on nothing is waited for, also in the destructor.
  virtual void abandon() {}
};

// kInvalid with a sentence: unknown dtype or op, a mean of integers, no buffer, count or root out of range.
Status check_operation(const Operation& operation, int size);

// A world of one: results are copies.
std::unique_ptr<Backend> make_alone_backend();

}  // namespace dl::learner
