// SPDX-License-Identifier: Apache-2.0
// The metrics of a job as runs of other programs: TensorBoard, MLflow, W&B. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/ctl/metrics_job.h"

namespace dl::ctl {

struct ExportPoint {
  int64_t step = 0, time_ms = 0;
  double value = 0;  // may be NaN or infinite
  int attempt = 0;
};

struct ExportSeries {
  // GROUP/NAME, and /rank-R of learners other than 0: no part of it is empty, "." or "..", and it has none of the
  // characters that a file system or a shell takes for its own. No two series of a run have the same.
  std::string tag;
  // Where most points of the series have no train step, `step` counts the seconds since the first value of the job.
  bool by_step = true;
  std::vector<ExportPoint> points;
};

struct ExportRun {
  int attempt = 0;  // 0: the true curve over all attempts
  std::vector<ExportSeries> series;
};

struct ExportedJob {
  std::vector<ExportRun> runs;  // those with points alone
  int64_t points = 0;           // of all runs
  int64_t without_step = 0;     // points that are left out of series of train steps
  int64_t superseded = 0;       // points that later attempts have superseded, and that are left out
};

// One run, the true curve; with `all` one run for each attempt, which has its superseded points, too. Each run has a
// series more, "attempt": at the first point of each attempt its number.
ExportedJob exported(const JobMetrics& job, bool all);

// What a run is called as a file: the name of its job, as far as every file system takes it; never ".", ".." or hidden.
std::string run_file_name(const std::string& job);

// The run as an event file of TensorBoard, in the order of time.
std::string event_file(const ExportRun& run);

// The runs for the Python package (launcher/python/dl/export):
// {"job", "directory", "state", "runs": [{"attempt", "series": [{"tag", "axis", "step", "time_ms", "value",
// "attempt"}]}]}. state: as people are told it (shown_name()).
std::string export_json(const JobMetrics& job, const std::string& directory, const std::string& state,
                        const ExportedJob& exported);

}  // namespace dl::ctl
