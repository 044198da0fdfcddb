// SPDX-License-Identifier: Apache-2.0
// Metrics of jobs as a table, as CSV and as JSON. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/ctl/metrics_job.h"

namespace dl::ctl {

constexpr size_t kNameWidth = 60;       // names of a curve are cut at so many columns, in plots as well
constexpr size_t kMostShownNotes = 10;  // of each job, in plots as well

// One row for each curve: how many points it has, the last value, the lowest and the highest; below the rows the train
// step that each attempt began with, and what is missing. superseded: here and below, points that a later attempt has
// superseded count, too.
std::string metrics_table(const std::vector<JobMetrics>& jobs, bool superseded);
// One line for each point.
std::string metrics_csv(const std::vector<JobMetrics>& jobs, bool superseded);
// {"jobs": [{"job", "attempts", "series": [{"rank", "group", "name", "step": [...], "time_ms": [...], ...}], "notes"}]}
std::string metrics_json(const std::vector<JobMetrics>& jobs, bool superseded);

// Six significant digits; "nan", "inf", "-inf".
std::string value_text(double value);

}  // namespace dl::ctl
