// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/vote_watch.h"

#include <utility>

namespace dl::agent {

std::optional<Vote> VoteWatch::look(std::string_view bytes, int64_t now_ms) {
  if (now_ms < next_ms_) return std::nullopt;
  auto read = read_vote(bytes);
  if (!read || read->number == told_) return std::nullopt;
  told_ = read->number;
  next_ms_ = now_ms + kEachMs;
  return std::move(read->vote);
}

}  // namespace dl::agent
