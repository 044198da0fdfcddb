// SPDX-License-Identifier: Apache-2.0
// How far a job has trained and how fast, as dlrun writes it into its job's comment each time that it writes one, for
// the metrics of dlpolicyd: "pace=STEP/STEPS_PER_SECOND/BLOCKED@TIME". Users may change the comment, so the hint is
// never trusted: it is shown, and decides nothing. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dl {

struct PaceHint {
  int64_t step = -1;       // newest train step that a learner has announced; -1: there is no hint
  double steps_per_s = 0;  // train steps a second between saves; 0: not known yet
  double blocked_s = 0;    // seconds for which saves have held learners up, since this dlrun began
  int64_t at_s = 0;        // Unix time of these numbers
};

// Empty for a hint without a train step.
std::string format_pace_hint(const PaceHint& hint);
// Reads the part after "pace="; a part that cannot be read, or is out of bounds, gives no hint.
PaceHint parse_pace_hint(std::string_view text);
// Finds the hint within a job's whole comment, whose form launcher/record/job_comment.h describes.
PaceHint pace_hint_in(std::string_view comment);

}  // namespace dl
