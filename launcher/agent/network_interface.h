// SPDX-License-Identifier: Apache-2.0
// Finds the network interface that an address of this machine belongs to.
#pragma once

#include <string>

namespace dl::agent {

// The name of the interface that has this numeric address ("10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0"), without the
// label of an alias ("eth0:1" -> "eth0"). Empty if none has it. Any thread.
std::string interface_of(const std::string& address);

}  // namespace dl::agent
