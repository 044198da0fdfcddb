// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/consistency.h"

#include <algorithm>
#include <limits>
#include <string>

#include "launcher/collectives/include/dllearner.h"

namespace dl::learner {

Consistency::Consistency(int mode, int64_t staleness, int learners)
    : mode_(mode), staleness_(staleness), learners_(static_cast<size_t>(learners)), active_(learners) {}

Status Consistency::known(int learner) const {
  if (learner < 0 || static_cast<size_t>(learner) >= learners_.size())
    return Error{Errc::kInvalid, "learner " + std::to_string(learner) + " does not exist; allowed: 0 to " +
                                     std::to_string(learners_.size() - 1)};
  if (learners_[static_cast<size_t>(learner)].left)
    return Error{Errc::kBusy,
                 "learner " + std::to_string(learner) + " has left the parameter server, and cannot use it any more"};
  return {};
}

int64_t Consistency::slowest() const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Learner& learner : learners_)
    if (!learner.left) least = std::min(least, learner.clock);
  return least;
}

bool Consistency::round_complete() {
  if (mode_ != DLLEARNER_PS_SYNC) return false;
  // Learners that have pushed and left count as well, but somebody must have pushed for a round to be complete.
  const bool any =
      std::any_of(learners_.begin(), learners_.end(), [this](const Learner& l) { return l.clock > version_; });
  if (!any || slowest() <= version_) return false;
  ++version_;
  return true;
}

Result<Consistency::Apply> Consistency::push(int learner) {
  DL_TRY(known(learner));
  Learner& one = learners_[static_cast<size_t>(learner)];
  if (mode_ == DLLEARNER_PS_SYNC && one.clock > version_)
    return Error{Errc::kBusy,
                 "learner " + std::to_string(learner) + " pushed twice in one train step; allowed: once, then a pull"};
  ++one.clock;
  if (mode_ != DLLEARNER_PS_SYNC) return Apply::kThis;
  return round_complete() ? Apply::kRound : Apply::kNothing;
}

Status Consistency::pull(int learner) {
  DL_TRY(known(learner));
  Learner& one = learners_[static_cast<size_t>(learner)];
  if (one.waiting)
    return Error{Errc::kBusy, "learner " + std::to_string(learner) +
                                  " asks for weights while its former request waits; allowed: one pull at a time"};
  one.waiting = true;
  return {};
}

Result<Consistency::Apply> Consistency::leave(int learner) {
  DL_TRY(known(learner));
  learners_[static_cast<size_t>(learner)].left = true;
  learners_[static_cast<size_t>(learner)].waiting = false;
  --active_;
  return round_complete() ? Apply::kRound : Apply::kNothing;
}

std::vector<int> Consistency::release() {
  std::vector<int> released;
  const int64_t least = slowest();
  for (size_t i = 0; i < learners_.size(); ++i) {
    Learner& one = learners_[i];
    if (!one.waiting) continue;
    const bool now = mode_ == DLLEARNER_PS_SYNC      ? one.clock <= version_
                     : mode_ == DLLEARNER_PS_BOUNDED ? one.clock - least <= staleness_
                                                     : true;
    if (!now) continue;
    one.waiting = false;
    released.push_back(static_cast<int>(i));
  }
  return released;
}

size_t shard_begin(size_t count, int servers, int server) {
  const auto n = static_cast<size_t>(servers);
  const auto s = static_cast<size_t>(server);
  return count / n * s + std::min(count % n, s);
}

}  // namespace dl::learner
