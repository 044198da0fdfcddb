// SPDX-License-Identifier: Apache-2.0
// The number of learners that the votes of an elastic job ask for (contract/vote.h), as dlrun writes it into the job's
// comment for dlpolicyd: "vote=LEARNERS". Users may change the comment, so the hint is never trusted: it moves the job
// within the range that its user asked for, on what its tenant holds or nobody waits for. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace dl {

// Reads the part after "vote="; none for any text that is not a number from 1 to kMaxLearners.
std::optional<int> parse_vote_hint(std::string_view text);
// Finds the hint within a job's whole comment, whose form launcher/record/job_comment.h describes.
std::optional<int> vote_hint_in(std::string_view comment);

}  // namespace dl
