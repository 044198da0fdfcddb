// SPDX-License-Identifier: Apache-2.0
// What a parameter server may do when: which gradients it applies, and which learners get weights. Pure.
//
// A learner's clock counts the gradients it has pushed; it pulls the weights for train step `clock`.
//   synchronous   the gradients of one train step of all learners are applied together; a pull waits for that
//   asynchronous  each gradient is applied as it comes; a pull never waits
//   bounded       as asynchronous, but a pull waits while the learner is more than `staleness` steps ahead of the
//                 slowest; 0: all stay within the same train step
// Learners that have left are waited for no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/result.h"

namespace dl::learner {

class Consistency {
 public:
  // mode: of dllearner_ps_mode.
  Consistency(int mode, int64_t staleness, int learners);

  enum class Apply { kNothing, kThis, kRound };
  // A gradient came. kRound: that of all learners' same train step are there. kBusy: it has not left the step before
  // (synchronous), or has left the world; kInvalid: there is no such learner.
  Result<Apply> push(int learner);
  // It asks for weights; kBusy if it is asking already.
  Status pull(int learner);
  // kRound: it was the last that the others waited for.
  Result<Apply> leave(int learner);
  // Who gets weights now, in rank order; each is told once. Called after what push or leave said was applied.
  std::vector<int> release();

  int64_t clock(int learner) const { return learners_[static_cast<size_t>(learner)].clock; }
  bool all_left() const { return active_ == 0; }

 private:
  struct Learner {
    int64_t clock = 0;
    bool waiting = false;
    bool left = false;
  };
  Status known(int learner) const;
  int64_t slowest() const;  // clock among those that have not left; the largest number if all have
  bool round_complete();

  int mode_;
  int64_t staleness_;
  std::vector<Learner> learners_;
  int active_;
  int64_t version_ = 0;  // rounds applied (synchronous)
};

// The first element of a server's part when `count` elements are divided evenly; that of server `servers` is count.
size_t shard_begin(size_t count, int servers, int server);

}  // namespace dl::learner
