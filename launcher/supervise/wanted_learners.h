// SPDX-License-Identifier: Apache-2.0
// For how long the number of learners that the votes ask for (votes.h) stands. Votes end with the attempt in which they
// were cast, but what they ask for has to outlive the restart that it brings about: otherwise dlpolicyd would take the
// change back as soon as it is made. So the number stays for kVoteLastsMs after the last look at which votes counted,
// or after dlrun has found it in the comment that an earlier dlrun of the job wrote. Nobody can vote while learners
// start, however long that takes, so that time does not count. Times are of the awake clock.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/supervise/votes.h"

namespace dl::supervise {

class WantedLearners {
 public:
  // What an earlier dlrun of this job wrote; nothing once a vote has been cast here.
  void found(int wanted, int64_t now_ms) {
    if (!wanted_) keep(wanted, now_ms);
  }
  // Tells the number that stands now: that of the votes, or the last one. can_vote: all learners have started.
  std::optional<int> look(const std::optional<JobVote>& vote, bool can_vote, int64_t now_ms) {
    if (vote) keep(vote->wanted, now_ms);
    if (wanted_ && !can_vote) keep(*wanted_, now_ms);
    if (wanted_ && now_ms >= until_ms_) wanted_.reset();
    return wanted_;
  }

 private:
  void keep(int wanted, int64_t now_ms) {
    wanted_ = wanted;
    until_ms_ = now_ms + kVoteLastsMs;
  }

  std::optional<int> wanted_;
  int64_t until_ms_ = 0;
};

}  // namespace dl::supervise
