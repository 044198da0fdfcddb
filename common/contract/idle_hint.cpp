// SPDX-License-Identifier: Apache-2.0
#include "common/contract/idle_hint.h"

#include <limits>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr int kMaxGpus = 1'000'000;
constexpr std::string_view kKey = " idle=";

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
  const size_t ours = comment.find("dl:");
  if (ours == std::string_view::npos) return {};
  // What follows " dir=" is a path or free text, in which " idle=" would mean nothing.
  const std::string_view words = comment.substr(ours, comment.find(" dir=", ours) - ours);
  const size_t key = words.find(kKey);
  if (key == std::string_view::npos) return {};
  const std::string_view rest = words.substr(key + kKey.size());
  return parse_idle_hint(rest.substr(0, rest.find(' ')));
}

}  // namespace dl
