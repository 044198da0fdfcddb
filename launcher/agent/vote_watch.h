// SPDX-License-Identifier: Apache-2.0
// Which of the votes that stand on the learner's progress page (common/contract/vote.h) dlrun is told of: the newest,
// at most one a second, however many the learner casts. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/contract/vote.h"

namespace dl::agent {

class VoteWatch {
 public:
  static constexpr int64_t kEachMs = 1000;

  // To be called again and again with the place of the vote as it is now. Returns a vote that is to be told now.
  std::optional<Vote> look(std::string_view bytes, int64_t now_ms);

 private:
  uint64_t told_ = 0;  // number of the vote that was told last
  int64_t next_ms_ = 0;
};

}  // namespace dl::agent
