// SPDX-License-Identifier: Apache-2.0
// Gathers what the report about a job shows (launcher/report): from its job directory, from Slurm, and from its dlrun
// while that runs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "launcher/ctl/find_job.h"
#include "launcher/report/report_data.h"

namespace dl::ctl {

// Never fails: what cannot be read is missing, and a sentence says so. Call act_as_owner() before.
report::ReportData look_for_report(const Job& job, int64_t now_ms);

// The attempts and ranks whose last lines tell most: of each attempt the learner that failed first, of the newest
// attempts, then those that failed after it; else learner 0 of the newest attempt. In order of attempts. Pure.
std::vector<std::pair<int, int>> telling_logs(const std::vector<record::Event>& events, int newest_attempt);

}  // namespace dl::ctl
