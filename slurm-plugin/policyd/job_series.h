// SPDX-License-Identifier: Apache-2.0
// The metrics of single jobs, and of how many jobs there are, in Prometheus' text format. All is from Slurm's records
// and from what dlrun writes into its job's comment; job directories are not read. Users can write comments and names
// of jobs, so these are only shown. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "slurm-plugin/observe/cluster_view.h"

namespace dl::policyd {

// The state of a job that waits or runs, by FfDL's names: "QUEUED" if it waits for a quota, else "PENDING"; then what
// its dlrun says; "RUNNING" if it runs without dlrun. `seen`: nullptr if it is not known to the policy. Static.
const char* job_state_name(const observe::JobRecord& record, const observe::SeenJob* seen);

// The jobs of each tenant by state, and the longest wait of each. The waiting elements of a job array are one job. Jobs
// without GPUs count if dlrun runs them, without a tenant if their account is none.
std::string tenant_jobs_text(const observe::ClusterView& view, const observe::Records& records);

// The series of at most `most` of these jobs: those that have run longest, then those that have waited longest, so that
// a job keeps its series until it ends. Says how many are left out.
std::string job_series_text(const observe::ClusterView& view, const observe::Records& records, size_t most);

}  // namespace dl::policyd
