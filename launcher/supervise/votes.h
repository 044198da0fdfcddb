// SPDX-License-Identifier: Apache-2.0
// What the learners of an attempt say of their number (common/contract/vote.h), and what that is together. There is no
// clock here: times are of the awake clock. A learner has one vote, so that many take no more room than one.
//
// The rule. A learner's newest vote counts for kVoteLastsMs, unless the learner has finished. That of one which is
// stopped or fails still counts: its attempt ends with it, and until the last learner has ended too few would be left
// to want what all wanted. One without such a vote counts as one that votes for no change. The job's vote is the median
// of all its learners; where two are in the middle, the one nearer to 0, or 0 between an increase and a decrease. So
// more than half of the learners have to want a change, and no vote of a single learner that is out of its mind counts
// where there are three. The number that follows is kept within what the user asked for. Parameter servers have no
// vote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/request_values.h"
#include "common/contract/vote.h"
#include "launcher/supervise/attempt.h"

namespace dl::supervise {

constexpr int64_t kVoteLastsMs = int64_t{10} * 60 * 1000;

struct JobVote {
  int change = 0;      // the median
  int wanted = 0;      // learners: those that there are and the change, within the range
  int voted = 0;       // learners with a vote
  int learners = 0;    // all that decide, whether they have ended or not
  std::string reason;  // of the vote nearest to the median that gives one: the first learner's of several
};

// The rule. votes: of each learner that decides. None if nobody has voted. Pure.
std::optional<JobVote> job_vote(const std::vector<std::optional<Vote>>& votes, const LearnerRange& range);

class Votes {
 public:
  // A new attempt, of so many ranks: all votes of the last one are forgotten.
  void begin_attempt(size_t ranks) { cast_ = std::vector<Cast>(ranks); }
  // A learner's vote, in place of its last one. One that is not allowed (check_vote()) is ignored.
  void cast(int rank, const Vote& vote, int64_t now_ms);
  // learners: of the attempt. deciding, range: as LaunchPlan::deciding() and LaunchPlan::asked.
  std::optional<JobVote> of_job(const std::vector<Learner>& learners, int deciding, const LearnerRange& range,
                                int64_t now_ms) const;

 private:
  struct Cast {
    std::optional<Vote> vote;
    int64_t at_ms = 0;
  };
  std::vector<Cast> cast_;  // by rank
};

}  // namespace dl::supervise
