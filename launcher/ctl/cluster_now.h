// SPDX-License-Identifier: Apache-2.0
// The cluster as the policy sees it now, for `dlctl quota` and `dlctl why`: the same view and decision as dlpolicyd's.
#pragma once

#include "common/base/result.h"
#include "common/json/json.h"
#include "common/site/site_config.h"
#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/policy/decide.h"

namespace dl::ctl {

struct ClusterNow {
  SiteConfig site;
  observe::Records records;
  observe::ClusterView view;
  policy::Decision decision;

  // Index into view.state.jobs; -1 if the job is not there. The id of a job array stands for the first of its waiting
  // elements.
  int find(int64_t job) const;
};

// "17", or "17_3" for an element of a job array, as squeue shows it; else kInvalid with what is allowed. Ids are those
// of policy/job_id.h.
Result<int64_t> parse_job_option(const std::string& text);
// {"job": 17}; of an element of a job array {"job": 17, "element": "17_3"}.
Json job_json(int64_t id);

// Reads dl.toml and asks slurmctld. The use of GPUs is counted from the jobs that run now; only dlpolicyd also knows
// what ended jobs used and when jobs saved. kUnsupported if there is no module for this Slurm (slurm_records.h);
// kNotFound if dl.toml declares no tenants. GPUs of jobs that PrivateData hides from the caller are treated as absent.
Result<ClusterNow> look_at_cluster();

}  // namespace dl::ctl
