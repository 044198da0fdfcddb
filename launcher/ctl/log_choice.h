// SPDX-License-Identifier: Apache-2.0
// Parses what people type to choose logs and lines for `dlctl logs`. Pure, but for the local time zone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace dl::ctl {

// Ranks of learners: "3", "0-3,8". Without any, all are meant.
class Ranks {
 public:
  static Result<Ranks> parse(const std::string& text);
  bool has(int rank) const;
  bool all() const { return ranges_.empty(); }
  // The rank, if it is only one.
  std::optional<int> single() const;

 private:
  std::vector<std::pair<int, int>> ranges_;
};

// A moment, in milliseconds since the epoch: "10m" (so long before now), "14:05", "14:05:09" (the last time that the
// clock showed it), "2026-11-25", "2026-11-25 14:05", "2026-11-25T14:05:09" (local; with Z at the end UTC), or
// "@1790000000".
Result<int64_t> parse_moment(const std::string& text, int64_t now_ms);

// Which of `attempts` (ascending) may have lines between the two moments. begins: the time at which each of them began
// (milliseconds since the epoch), where it is known. An attempt lasts until the next one begins.
std::vector<int> attempts_between(const std::vector<int>& attempts, const std::map<int, int64_t>& begins,
                                  std::optional<int64_t> since_ms, std::optional<int64_t> until_ms);

}  // namespace dl::ctl
