// SPDX-License-Identifier: Apache-2.0
// The connections to the other ranks of the run: a group for messages, and an exchange for bulk data.
#pragma once

#include <memory>
#include <utility>

#include "checkpoint/group/group.h"
#include "checkpoint/transport/exchange.h"

namespace dl::ckpt {

class Peers {
 public:
  Peers(std::unique_ptr<Group> group, double timeout_s) : group_(std::move(group)), timeout_s_(timeout_s) {}

  Group& group() { return *group_; }
  // The first call is collective. nullptr if the ranks cannot connect to one another.
  Result<Exchange*> exchange() {
    if (!met_) {
      DL_TRY_ASSIGN(exchange_, make_exchange(*group_, timeout_s_));
      met_ = true;
    }
    return exchange_.get();
  }

 private:
  std::unique_ptr<Group> group_;
  double timeout_s_;
  bool met_ = false;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace dl::ckpt
