// SPDX-License-Identifier: Apache-2.0
// A TCP connection within a time.
#pragma once

#include <netdb.h>

#include <chrono>

#include "launcher/common/unique_fd.h"

namespace dl::agent {

// Until then; 0 if it is over.
int milliseconds_left(std::chrono::steady_clock::time_point deadline);

// One try of the first of these addresses. 0, and *out is a connected socket that does not block; else errno of the
// failure, ETIMEDOUT if the time was over.
int connect_by(std::chrono::steady_clock::time_point deadline, const addrinfo& address, UniqueFd* out);

}  // namespace dl::agent
