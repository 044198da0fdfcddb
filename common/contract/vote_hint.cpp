// SPDX-License-Identifier: Apache-2.0
#include "common/contract/vote_hint.h"

#include "common/base/parse.h"
#include "common/contract/comment_word.h"
#include "common/contract/request_values.h"

namespace dl {

std::optional<int> parse_vote_hint(std::string_view text) {
  const auto learners = parse_int(text, 1, kMaxLearners);
  if (!learners) return std::nullopt;
  return static_cast<int>(*learners);
}

std::optional<int> vote_hint_in(std::string_view comment) {
  return parse_vote_hint(comment_word(comment, "vote"));
}

}  // namespace dl
