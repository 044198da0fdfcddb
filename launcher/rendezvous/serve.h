// SPDX-License-Identifier: Apache-2.0
// One request of a client, carried out on a store. Pure: the reply is bytes to be sent.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/rendezvous/store.h"
#include "launcher/rendezvous/wire.h"

namespace dl::rendezvous {

struct ServeLimits {
  size_t store_bytes = size_t{1} << 30;    // of Store::bytes(): what would go beyond it is refused
  size_t reply_bytes = size_t{256} << 20;  // of one reply
};

// Appends the reply to *reply (nothing while the client waits). kNoSpace or kInvalid: the client must be cut off; the
// store is as it was before. Who else may go on is in store->take_woken(): each is owed one byte kStopWaiting.
Status serve(Store* store, ClientId client, Request&& request, const ServeLimits& limits, std::string* reply);

}  // namespace dl::rendezvous
