// SPDX-License-Identifier: Apache-2.0
// A learner's vote on the number of learners, and the place in the file of the progress page (progress_page.h) where it
// stands: a learner writes its newest vote there, and its agent reads it. So votes take no room, however many there
// are. The learner may be any process that has the page's name (DL_PROGRESS), and needs no checkpoint library. Three
// writers lay out the place alike: libdllearner by this file, and the Python packages dl and dlckpt (voting.py).
//
// The place, in the byte order of the machine:
//    0  uint32  check_sum() of all that follows
//    4  uint32  bytes of the reason
//    8  uint64  number, another one for each vote; 0: there was none yet
//   16  int64   change
//   24  reason, filled up with zeroes
// It is written by one write(), which file systems do not mix with another one. A reader may see a part of it: then the
// sum is wrong, and the reader looks again later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/contract/progress_page.h"
#include "common/contract/request_values.h"

namespace dl {

struct Vote {
  int change = 0;      // learners that the job needs more (or, if negative, fewer) than it has
  std::string reason;  // for people; may be empty
};

constexpr int kMostVote = kMaxLearners;  // of change, up and down
constexpr size_t kMostVoteReason = 200;  // bytes
constexpr size_t kVoteAt = 1024;         // place in the file of the page
constexpr size_t kVoteBytes = 24 + kMostVoteReason;
static_assert(sizeof(ProgressPage) <= kVoteAt && kVoteAt + kVoteBytes <= kProgressPageBytes);

// All functions here are pure.

// kInvalid: the change is beyond kMostVote, or the reason is longer than kMostVoteReason, no UTF-8, or has control
// characters.
Status check_vote(int64_t change, std::string_view reason);

// FNV-1a, 32 bits.
uint32_t check_sum(std::string_view bytes);

// The kVoteBytes of a vote that check_vote() allows. number: not 0.
std::string vote_bytes(const Vote& vote, uint64_t number);

struct NumberedVote {
  Vote vote;
  uint64_t number = 0;
};
// None if there was no vote, it is being written, or it is not allowed. bytes: kVoteBytes.
std::optional<NumberedVote> read_vote(std::string_view bytes);

}  // namespace dl
