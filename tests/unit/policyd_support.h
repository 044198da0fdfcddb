// SPDX-License-Identifier: Apache-2.0
// Slurm's records for the tests, made by hand.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/observe/cluster_view.h"

namespace dl::policyd::testing {

constexpr int64_t kNow = 1'789'000'000;

// Tenants vision and nlp with `quota` GPUs each of any type; one type, a100.
inline policy::ClusterState site(int quota = 2) {
  policy::ClusterState state;
  state.types = {"a100"};
  for (const char* name : {"vision", "nlp"}) {
    policy::Tenant tenant;
    tenant.name = name;
    tenant.quota.any = quota;
    state.tenants.push_back(tenant);
  }
  return state;
}

inline observe::Records cluster(int nodes, int gpus) {
  observe::Records records;
  records.now_s = kNow;
  for (int i = 1; i <= nodes; ++i)
    records.nodes.push_back({"n" + std::to_string(i), "gpu:a100:" + std::to_string(gpus) + "(S:0)", true});
  return records;
}

inline policy::JobLabel label(const std::string& tenant, int learners, policy::Charge charge) {
  policy::JobLabel label;
  label.tenant = tenant;
  label.learners = LearnerRange{learners, learners};
  label.pausable = true;
  label.charge = charge;
  return label;
}

inline observe::JobRecord& add_pending(observe::Records* records, int64_t id, const policy::JobLabel& label) {
  observe::JobRecord job;
  job.id = id;
  job.phase = observe::JobPhase::kPending;
  job.requeueable = true;
  job.submit_s = job.begin_s = kNow - 100 + id;
  job.admin_comment = policy::format_label(label);
  if (label.charge == policy::Charge::kOwn)
    job.licenses = "dl_" + label.tenant + ":" + std::to_string(label.learners.min * label.gpus);
  records->jobs.push_back(job);
  return records->jobs.back();
}

// Runs since 1000 s on the nodes, with so many GPUs on each.
inline observe::JobRecord& add_running(observe::Records* records, int64_t id, const policy::JobLabel& label,
                                       const std::string& nodes, const std::vector<int>& gpus) {
  observe::JobRecord& job = add_pending(records, id, label);
  job.phase = observe::JobPhase::kRunning;
  job.start_s = kNow - 1000;
  job.nodes = nodes;
  job.comment = "dl:PROCESSING attempt=1 step=3 dir=/x/dl-1";
  for (const int count : gpus) job.gres_by_node.push_back("gpu:a100:" + std::to_string(count) + "(IDX:0)");
  return job;
}

}  // namespace dl::policyd::testing
