// SPDX-License-Identifier: Apache-2.0
// Decides which sets leave the cache. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::data {

struct SetUse {
  std::string key;
  uint64_t bytes = 0;   // that its removal frees
  int64_t used_ms = 0;  // when it was last used
  bool held = false;    // leased, pinned, or used too recently on another node: it stays
};

struct Room {
  uint64_t limit = 0;  // the most bytes that the cache may hold; 0: no limit
  uint64_t held = 0;   // what it holds now
  uint64_t free = 0;   // of the disk
  uint64_t floor = 0;  // what must stay free of the disk
  uint64_t need = 0;   // what is to be added to `held`
  uint64_t more = 0;   // what of it is not on the disk yet
};

// The user asks for more at once than a cache may ever hold: kInvalid, with a sentence.
Error larger_than_limit(uint64_t need, uint64_t limit);

// The sets to remove, least recently used first, so that `need` has room. A little more than that is removed (a
// sixteenth of `need`, and of the limit), so that the next few bytes need not evict again. Nothing is removed where
// even all that may go would not suffice: kNoSpace, with a sentence; kInvalid: `need` alone is larger than the limit.
Result<std::vector<std::string>> choose_victims(std::vector<SetUse> sets, const Room& room);

}  // namespace dl::data
