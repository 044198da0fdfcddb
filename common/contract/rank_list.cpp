// SPDX-License-Identifier: Apache-2.0
#include "common/contract/rank_list.h"

#include "common/base/parse.h"
#include "common/contract/request_values.h"

namespace dl {

std::string format_rank_list(const std::vector<int>& ranks) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    for (end = begin + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(ranks[begin]);
    if (end - begin > 1) text += '-' + std::to_string(ranks[end - 1]);
  }
  return text;
}

Result<int> rank_at(const std::string& list, int64_t place) {
  DL_TRY_ASSIGN(const auto ranges, parse_ranges(list, kMaxLearners - 1));
  for (const auto& [first, last] : ranges) {
    if (place <= last - first) return static_cast<int>(first + place);
    place -= last - first + 1;
  }
  return Error{Errc::kInvalid, "'" + printable(list, 100) + "' names too few ranks"};
}

}  // namespace dl
