// SPDX-License-Identifier: Apache-2.0
// A TCP port kept for a learner that will listen on it (MASTER_PORT), without a race: bound but not listening, with
// SO_REUSEADDR and SO_REUSEPORT. The kernel then gives it to no process that asks for any free port, while a framework
// that binds it with either option succeeds and gets every connection (measured on Linux 6.18; PyTorch's TCPStore sets
// SO_REUSEADDR, gRPC SO_REUSEPORT). Released when the object is destroyed.
#pragma once

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::agent {

class HeldPort {
 public:
  // Holds a port that is free on all addresses, IPv6 included if the machine has it. Errors of socket() and bind().
  Status hold();
  // Releases it early: for a learner that binds with neither option, which fails as long as the port is held.
  void release() { fd_.reset(); }
  int port() const { return port_; }

 private:
  UniqueFd fd_;
  int port_ = 0;
};

}  // namespace dl::agent
