// SPDX-License-Identifier: Apache-2.0
// What dlrun measured of an elastic job's speed, as it writes it into the job's comment for dlpolicyd:
// "scale=RESTART:NOISE;LEARNERS/NODES:STEP_MS,...", at most kMostScaleSizes sizes: those nearest to the present one.
// Users may change the comment, so the hint is never trusted: dlpolicyd bounds what a speed can count
// (policy/elastic/value.h), and a job that lies changes what its own tenant's jobs get of what their tenant holds, and
// nothing else. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dl {

struct ScaleHint {
  struct Size {
    int learners = 1;
    int nodes = 1;
    double step_s = 0;  // of one train step
  };
  int64_t restart_s = -1;   // from the start of an attempt until its first train step; negative: not known
  double noise = -1;        // gradient noise scale in samples; negative: not known
  std::vector<Size> sizes;  // empty: nothing was measured
};

constexpr size_t kMostScaleSizes = 8;

// Keeps the kMostScaleSizes sizes that are nearest to `now` learners. Empty text for a hint without sizes.
std::string format_scale_hint(const ScaleHint& hint, int now);
// Reads the part after "scale="; a part that cannot be read, or is out of bounds, gives a hint without sizes.
ScaleHint parse_scale_hint(std::string_view text);
// Finds the hint within a job's whole comment, whose form launcher/record/job_comment.h describes.
ScaleHint scale_hint_in(std::string_view comment);

}  // namespace dl
