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
  std::string group, name;                  // of the learner's program: hostile
  std::vector<metrics::CurvePoint> points;  // in order of attempts
};

struct MetricsAttempt {
  int attempt = 0;
  int64_t time_ms = 0;          // when it began; 0: unknown
  std::optional<int64_t> step;  // that its learners began with
};

struct JobMetrics {
  std::string job;
  std::vector<JobCurve> curves;  // sorted by group and name (train, validate, test, others), then by rank
  std::vector<MetricsAttempt> attempts;
  std::vector<std::string> notes;  // what is missing, and why: hostile, too
};

// Which curves are wanted; empty: all. Names may have * and ?.
struct MetricsChoice {
  std::string name, group;
  std::optional<int> rank;
  bool superseded = false;  // with the points that a later attempt has superseded
};
bool wants(const MetricsChoice& choice, const JobCurve& curve);

// Damaged files cost their own content, which is noted. Call act_as_owner() before.
Result<JobMetrics> read_metrics(const Job& job, const MetricsChoice& choice);

}  // namespace dl::ctl
