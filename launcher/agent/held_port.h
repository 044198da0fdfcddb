// SPDX-License-Identifier: Apache-2.0
// A TCP port kept for a learner that will listen on it (MASTER_PORT), without a race: bound but not listening, with
// SO_REUSEADDR and SO_REUSEPORT. The kernel then gives it to nobody who asks for any free port, while a framework that
// binds it with either option succeeds and gets every connection (measured on Linux 6.18; PyTorch's TCPStore sets
// SO_REUSEADDR, gRPC SO_REUSEPORT). Released when the object goes.
#pragma once

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::agent {

class HeldPort {
 public:
  // Holds a free port of all addresses, IPv6 included where the machine has it.
  Status hold();
  // Lets it go: for a learner that binds with neither option, which fails as long as it is held.
  void release() { fd_.reset(); }
  int port() const { return port_; }

 private:
  UniqueFd fd_;
  int port_ = 0;
};

}  // namespace dl::agent
