// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/cluster_now.h"

#include <fmt/core.h>

#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/slurm_records.h"
#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/site_state.h"

namespace dl::ctl {

int ClusterNow::find(int64_t job) const {
  // An element of a job array that has started has an id of its own besides the array's id and its number.
  for (const observe::JobRecord& record : records.jobs)
    if (record.element >= 0 && record.id == job && record.id != record.array)
      job = policy::element_id(record.array, record.element);
  int first = -1;
  for (size_t i = 0; i < view.state.jobs.size(); ++i) {
    const int64_t id = view.state.jobs[i].id;
    if (id == job) return static_cast<int>(i);
    if (first < 0 && policy::is_element(id) && policy::array_of(id) == job) first = static_cast<int>(i);
  }
  return first;
}

Result<int64_t> parse_job_option(const std::string& text) {
  const auto id = policy::parse_job_name(text);
  if (id) return *id;
  return Error{Errc::kInvalid, fmt::format("JOB: '{}' is not a job id; allowed: a number such as 17, or 17_3 for an "
                                           "element of a job array",
                                           printable(text))};
}

Json job_json(int64_t id) {
  Json json = {{"job", policy::array_of(id)}};
  if (policy::is_element(id)) json["element"] = policy::job_name(id);
  return json;
}

Result<ClusterNow> look_at_cluster() {
  ClusterNow now;
  const std::string path = default_site_config_path(true);
  DL_TRY_ASSIGN(now.site, load_site_config(path));
  if (now.site.tenants.empty())
    return Error{Errc::kNotFound, path +
                                      " declares no tenants, so this cluster has no quotas of slurm-dl's; allowed: "
                                      "tables [tenants.NAME] in that file"};
  DL_TRY_ASSIGN(now.records, read_slurm_records());
  observe::ViewOptions options;
  options.min_run_s = now.site.quota.min_run.count();
  options.grace_s = now.site.quota.grace.count();
  options.lend_idle = now.site.idle.lend;
  options.chosen_sizes = now.site.elastic.optimise;
  now.view = observe::view_cluster(policy::state_of(now.site), now.records, options);
  DL_TRY(policy::check(now.view.state));
  for (const policy::Job& job : now.view.state.jobs)
    now.view.state.tenants[job.tenant].recent_gpu_s += policy::use_since_start(now.view.state, job);
  now.decision = policy::decide(now.view.state);
  return now;
}

}  // namespace dl::ctl
