// SPDX-License-Identifier: Apache-2.0
// What learners and parameter servers say to one another. Both are the same library in the same job, on machines of one
// kind (MPI sends the structs as bytes).
#pragma once

#include <cstdint>

namespace dl::learner {

// A learner's messages to a server start with an Order (kOrderTag); floats go under kDataTag, a server's Answer to
// create under kAnswerTag. MPI keeps messages between two ranks in order.
constexpr int kOrderTag = 1;
constexpr int kDataTag = 2;
constexpr int kAnswerTag = 3;

enum class OrderKind : int32_t {
  kCreate = 1,  // of learner 0 followed by the server's part of the weights
  kPush = 2,    // followed by its part of the gradient
  kPull = 3,    // answered by its part of the weights
  kLeave = 4,
};

struct Order {
  OrderKind kind = OrderKind::kLeave;
  int32_t mode = 0;  // from here on: create alone
  int64_t staleness = 0;
  double learning_rate = 0;
  double momentum = 0;
  uint64_t count = 0;
};

}  // namespace dl::learner
