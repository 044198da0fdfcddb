// SPDX-License-Identifier: Apache-2.0
// The metrics of a job, from the series of its learners in all attempts (launcher/metrics).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/ctl/find_job.h"
#include "launcher/metrics/true_curve.h"

namespace dl::ctl {

struct JobCurve {
  int rank = 0;
  std::string group, name;                  // chosen by the learner's program: hostile
  std::vector<metrics::CurvePoint> points;  // in order of attempts
};

struct MetricsAttempt {
  int attempt = 0;
  int64_t time_ms = 0;          // when it began; 0: unknown
  std::optional<int64_t> step;  // train step with which its learners began; none: unknown
  std::string why{};            // how the attempt before it ended; empty: unknown. Hostile.
};

struct JobMetrics {
  std::string job;
  std::vector<JobCurve> curves;  // sorted by group and name (train, validate, test, others), then by rank
  std::vector<MetricsAttempt> attempts;
  std::vector<std::string> notes;  // what is missing, and why: hostile, too
};

// Which curves are wanted; an empty member allows all. `name` and `group` may have * and ?.
struct MetricsChoice {
  std::string name, group;
  std::optional<int> rank;
  bool superseded = false;  // also show points that a later attempt has superseded
};
bool wants(const MetricsChoice& choice, const JobCurve& curve);

// Reads the metrics of all attempts. What is in a damaged file is missing, and a note says so. Call act_as_owner()
// before.
Result<JobMetrics> read_metrics(const Job& job, const MetricsChoice& choice);

}  // namespace dl::ctl
