// SPDX-License-Identifier: Apache-2.0
// Lists the logs and the series of metrics that a job directory has.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/record/job_dir.h"

namespace dl::ctl {

// The numbers of the attempts that have a log folder, ascending; may be empty.
std::vector<int> list_attempts(const record::JobDir& dir);
// The ranks that have a log in this attempt, compressed or not, ascending.
std::vector<int> list_learner_logs(const record::JobDir& dir, int attempt);
// "logs/attempt-1/learner-0.log"
std::string learner_log(int attempt, int rank);
// The last lines of that log, oldest first: at most so many, of its last `most_bytes` bytes. Errors of
// logs::LogFile::open().
Result<std::vector<std::string>> last_lines(const record::JobDir& dir, int attempt, int rank, size_t most_lines,
                                            size_t most_bytes);

// The same of metrics/attempt-A and of metrics/attempt-A/learner-R.series.
std::vector<int> list_metrics_attempts(const record::JobDir& dir);
std::vector<int> list_learner_series(const record::JobDir& dir, int attempt);
std::string learner_series(int attempt, int rank);
std::string use_series(int attempt);

}  // namespace dl::ctl
