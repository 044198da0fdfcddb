// SPDX-License-Identifier: Apache-2.0
// TCP connections to dlrun, and their times.
#pragma once

#include <netdb.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/unique_fd.h"

namespace dl::agent {

// Until then; 0 if it is over.
int milliseconds_left(std::chrono::steady_clock::time_point deadline);

// One try of the first of these addresses. 0, and *out is a connected socket that does not block; else errno of the
// failure, ETIMEDOUT if the time was over.
int connect_by(std::chrono::steady_clock::time_point deadline, const addrinfo& address, UniqueFd* out);

// Of a connection to dlrun: what is written goes out at once, and what is not acknowledged breaks it in seconds.
void prepare_socket(int fd);
// Numeric address of our end; empty if it has none.
std::string address_of(int fd);

}  // namespace dl::agent
