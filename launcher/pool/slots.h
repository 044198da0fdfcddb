// SPDX-License-Identifier: Apache-2.0
// Keys and slots. A key belongs to one of a fixed number of slots for ever; slots move between members, keys never
// change their slot. So a table of owners has the same size for ten keys and for ten million. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace dl::pool {

constexpr int kSlots = 1024;

using MemberId = uint32_t;  // from 1, in the order in which members join; never used again in the same pool; 0: nobody

// From 0 to slots - 1. All members and clients must agree, so this function is part of the protocol.
int slot_of(std::string_view key, int slots = kSlots);

}  // namespace dl::pool
