// SPDX-License-Identifier: Apache-2.0
// Decides which points of a job belong to the training that counts. A job that was interrupted continues from its last
// checkpoint: what an earlier attempt had measured at that train step or beyond it is superseded. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/metrics/series.h"

namespace dl::metrics {

// One series of one learner in one attempt.
struct Piece {
  int attempt = 0;
  std::vector<Point> points;
};

// What is known of an attempt.
struct AttemptStart {
  int attempt = 0;
  std::optional<int64_t> step;  // train step with which its learners began; none: unknown
  int64_t time_ms = 0;          // when it began; 0: unknown
};
// A train step that was saved.
struct Saved {
  int64_t step = 0;
  int64_t time_ms = 0;
};

struct CurvePoint {
  Point point;
  int attempt = 0;
  bool superseded = false;
};

// The points of all pieces, in the order of attempts and, within one, in that of the pieces. An attempt began, for
// this series, with the train step that `starts` has; else with the lowest train step of its own points, if any has
// one. Points of earlier attempts at that step or beyond it are superseded. A point without a train step is superseded
// if it was measured after that step had been saved last, or if the attempt began with step 0; it is not if the step is
// not known to have been saved.
std::vector<CurvePoint> curve_of(const std::vector<Piece>& pieces, const std::vector<AttemptStart>& starts,
                                 const std::vector<Saved>& saved);

}  // namespace dl::metrics
