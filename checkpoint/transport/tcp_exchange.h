// SPDX-License-Identifier: Apache-2.0
// The exchange over TCP, made when addresses and the secret are known; make_exchange() finds these.
#pragma once

#include "checkpoint/transport/exchange.h"
#include "checkpoint/transport/socket.h"

namespace dl::ckpt {

// `peers` are the endpoints by rank. kIo.
Result<std::unique_ptr<Exchange>> make_tcp_exchange(int rank, UniqueFd listener, std::vector<Endpoint> peers,
                                                    std::string secret, bool one_host, double timeout_s);

}  // namespace dl::ckpt
