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
  for (const std::string& part : split(list, ',')) {
    const size_t dash = part.find('-');
    DL_TRY_ASSIGN(const int64_t first, parse_int(part.substr(0, dash), 0, kMaxLearners - 1));
    int64_t last = first;
    if (dash != std::string::npos) {
      DL_TRY_ASSIGN(last, parse_int(part.substr(dash + 1), first, kMaxLearners - 1));
    }
    if (place <= last - first) return static_cast<int>(first + place);
    place -= last - first + 1;
  }
  return Error{Errc::kInvalid, "'" + printable(list, 100) + "' names too few ranks"};
}

}  // namespace dl
