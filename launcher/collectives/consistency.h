// SPDX-License-Identifier: Apache-2.0
// Decides when a parameter server applies gradients, and which learners get weights. Pure.
//
// A learner's clock counts the gradients that it has pushed. It pulls weights for train step `clock`.
//   synchronous   the gradients of one train step of all learners are applied together; a pull waits for that
//   asynchronous  each gradient is applied as it comes; a pull never waits
//   bounded       as asynchronous, but a pull waits while the learner is more than `staleness` steps ahead of the
//                 slowest; 0: all stay within the same train step
// Nothing waits for learners that have left.
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
  // A gradient has come. kThis: apply it now. kRound: apply those of this train step, which all learners have pushed
  // now. kBusy: this learner pushed twice for one train step (synchronous), or has left. kInvalid: there is no such
  // learner.
  Result<Apply> push(int learner);
  // A learner asks for weights. kBusy if it is waiting for some already, or has left; kInvalid as above.
  Status pull(int learner);
  // A learner leaves. kRound: the others waited only for it: apply the gradients of this train step. Errors of push().
  Result<Apply> leave(int learner);
  // The learners that get weights now, in rank order; each once for each pull. Call it after applying what push() or
  // leave() returned.
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
  int64_t slowest() const;  // smallest clock of the learners that have not left; INT64_MAX if all have
  bool round_complete();

  int mode_;
  int64_t staleness_;
  std::vector<Learner> learners_;
  int active_;
  int64_t version_ = 0;  // rounds applied (synchronous)
};

// The first element of a server's part when `count` elements are divided evenly over the servers. If server == servers:
// count.
size_t shard_begin(size_t count, int servers, int server);

}  // namespace dl::learner
