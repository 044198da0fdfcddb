// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/eviction.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "common/base/parse.h"

namespace dl::data {
namespace {

constexpr uint64_t kMarginPart = 16;

uint64_t beyond(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

}  // namespace

Error larger_than_limit(uint64_t need, uint64_t limit) {
  return Error{Errc::kInvalid,
               fmt::format("the data are {}, and a user's cache on a node holds {} (the site's limit); give each node "
                           "its part with cache=shard, or read a path where it lies with cache=none",
                           format_bytes(need), format_bytes(limit))};
}

Result<std::vector<std::string>> choose_victims(std::vector<SetUse> sets, const Room& room) {
  if (room.limit > 0 && room.need > room.limit) return larger_than_limit(room.need, room.limit);
  const uint64_t over_limit = room.limit > 0 ? beyond(room.held + room.need, room.limit) : 0;
  const uint64_t over_disk = beyond(room.more + room.floor, room.free);
  const uint64_t least = std::max(over_limit, over_disk);
  std::vector<std::string> victims;
  if (least == 0) return victims;
  std::sort(sets.begin(), sets.end(),
            [](const SetUse& a, const SetUse& b) { return std::tie(a.used_ms, a.key) < std::tie(b.used_ms, b.key); });
  uint64_t all = 0;
  for (const SetUse& set : sets) all += set.held ? 0 : set.bytes;
  if (all < least)
    return Error{
        Errc::kNoSpace,
        fmt::format("the node has no room for {} of data: {} are free on its disk, of which {} stay free, the "
                    "cache holds {} of at most {}, and {} of it may be evicted",
                    format_bytes(room.more), format_bytes(room.free), format_bytes(room.floor), format_bytes(room.held),
                    room.limit > 0 ? format_bytes(room.limit) : "what fits", format_bytes(all))};
  const uint64_t wanted = least + std::max(room.need, room.limit) / kMarginPart;
  uint64_t freed = 0;
  for (const SetUse& set : sets) {
    if (set.held || freed >= wanted) continue;
    // The margin alone is no reason to evict a set that is larger than it.
    if (freed >= least && set.bytes > wanted - freed) continue;
    freed += set.bytes;
    victims.push_back(set.key);
  }
  return victims;
}

}  // namespace dl::data
