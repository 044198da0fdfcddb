// SPDX-License-Identifier: Apache-2.0
// Opens TCP connections to dlrun within a time limit.
#pragma once

#include <netdb.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/unique_fd.h"

namespace dl::protocol {

// Milliseconds until the deadline; 0 if it has passed.
int milliseconds_left(std::chrono::steady_clock::time_point deadline);

// Tries once to connect to the first of these addresses. 0: *out is a connected, non-blocking socket; else an errno,
// ETIMEDOUT if the deadline has passed.
int connect_by(std::chrono::steady_clock::time_point deadline, const addrinfo& address, UniqueFd* out);

// Sets options of a connection to dlrun: data are sent at once (TCP_NODELAY), and the connection breaks if they are not
// acknowledged for 2.5 s (TCP_USER_TIMEOUT).
void prepare_socket(int fd);
// Numeric address of this end of the socket; empty if it has none.
std::string address_of(int fd);

}  // namespace dl::protocol
