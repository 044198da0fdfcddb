// SPDX-License-Identifier: Apache-2.0
// The messages between learners and parameter servers. Both use the same library in the same job, on machines of the
// same architecture (MPI sends the structs as bytes).
#pragma once

#include <cstdint>

namespace dl::learner {

// Tags. A learner's message to a server begins with an Order (kOrderTag); floats follow with kDataTag. A server answers
// kCreate with kAnswerTag: one int32, 1 if all learners agree. MPI keeps messages between two ranks in order.
constexpr int kOrderTag = 1;
constexpr int kDataTag = 2;
constexpr int kAnswerTag = 3;

enum class OrderKind : int32_t {
  kCreate = 1,  // from learner 0: followed by the server's part of the weights
  kPush = 2,    // followed by the server's part of the gradient
  kPull = 3,    // answered by the server's part of the weights
  kLeave = 4,
};

struct Order {
  OrderKind kind = OrderKind::kLeave;
  int32_t mode = 0;  // this and all that follow: used by kCreate alone
  int64_t staleness = 0;
  double learning_rate = 0;
  double momentum = 0;
  uint64_t count = 0;
};

}  // namespace dl::learner
