// SPDX-License-Identifier: Apache-2.0
// Lets rank 0 send texts to all ranks, through a group of its own, which does not disturb the group that saves use.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "checkpoint/group/group.h"

namespace dl::ckpt {

class Announcer {
 public:
  explicit Announcer(std::unique_ptr<Group> group) : group_(std::move(group)) {}

  bool speaks() const { return group_->rank() == 0; }
  // Collective: returns the text that rank 0 passed as `mine`; that of other ranks is ignored. again: a retry after
  // this rank's last call failed, which returns the previous announcement. Errors as Group's.
  Result<std::string> tell(std::string mine, bool again = false) {
    if (again) {
      group_->again();
    } else {
      group_->start();
      ++count_;
    }
    double patience = 1;
    // An announcement can be removed only when all ranks have read it. Their answers, which are gathered now and then,
    // show this.
    if (count_ % kAnswerEvery == 0) {
      patience = 2;
      auto answered = group_->gather("");
      if (!answered) return std::move(answered).error();
    }
    return group_->broadcast(std::move(mine), patience);
  }

  static constexpr uint64_t kAnswerEvery = 32;

 private:
  std::unique_ptr<Group> group_;
  uint64_t count_ = 0;
};

}  // namespace dl::ckpt
