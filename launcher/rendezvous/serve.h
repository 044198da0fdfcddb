// SPDX-License-Identifier: Apache-2.0
// Carries out one request of a TCPStore client. Pure: the reply is bytes to be sent.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/rendezvous/torch_store.h"
#include "launcher/rendezvous/wire.h"

namespace dl::rendezvous {

struct ServeLimits {
  size_t store_bytes = size_t{1} << 30;    // of TorchStore::bytes(): requests that may exceed it are refused
  size_t reply_bytes = size_t{256} << 20;  // of one reply
};

// Appends the reply to *reply (nothing if the client has to wait). kNoSpace or kInvalid: the client must be cut off;
// the store is unchanged. Other clients whose wait has ended are in store->take_woken(): send each one byte
// kStopWaiting.
Status serve(TorchStore* store, ClientId client, Request&& request, const ServeLimits& limits, std::string* reply);

}  // namespace dl::rendezvous
