// SPDX-License-Identifier: Apache-2.0
#include "common/contract/idle_hint.h"

#include <limits>

#include "common/base/parse.h"
#include "common/contract/comment_word.h"

namespace dl {
namespace {

constexpr int kMaxGpus = 1'000'000;

}  // namespace

IdleHint parse_idle_hint(std::string_view text) {
  const size_t at = text.find('@');
  if (at == std::string_view::npos) return {};
  const auto gpus = parse_int(text.substr(0, at), 1, kMaxGpus);
  const auto since = parse_int(text.substr(at + 1), 1, std::numeric_limits<int64_t>::max());
  if (!gpus || !since) return {};
  return {static_cast<int>(*gpus), *since};
}

IdleHint idle_hint_in(std::string_view comment) {
  return parse_idle_hint(comment_word(comment, "idle"));
}

}  // namespace dl
