// SPDX-License-Identifier: Apache-2.0
// What its tenant's quota makes of a GPU job at its submission: refused with the number that it exceeds, or charged as
// the tenant's own or as borrowed. Pure.
#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "slurm-plugin/job_request.h"
#include "slurm-plugin/job_submit/gpu_count.h"
#include "slurm-plugin/job_submit/shape.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl {

struct TenantJob {
  const SiteConfig& site;
  const policy::ClusterState& state;  // state_of(site)
  const JobRequest& request;          // empty for a job without --dl-* flags
  const Submission& given;            // with the shape in it, if the job has one
  const GpuCount& gpus;               // more than none
  bool user_allowed = true;           // by the tenant's list of users
  bool slurm_limits_users = false;    // slurmdbd is there: slurmctld itself keeps max_user_gpus
  int64_t now_s = 0;
};

// Where dlpolicyd keeps max_user_gpus, a job begins so much later unless dlpolicyd opens this gate: slurmctld would
// start it at once, whatever else its user runs.
constexpr int64_t kUserGateS = 30;

struct Ruling {
  std::string account;                // as dl.toml spells it
  std::string licences;               // the user's and the tokens
  std::string label;                  // for admin_comment
  std::string gpu_type;               // to put into requests without a type; empty: leave them
  std::optional<uint32_t> max_nodes;  // fewer than asked for, or the number that was counted on
  std::optional<uint32_t> min_nodes;
  std::optional<int64_t> begin_s;
  policy::Charge charge = policy::Charge::kOwn;
  std::string message;  // lines for the user, each starting with "dl: "; may be empty
};

// kDenied: no account, one that is no tenant's, a user, framework or image that the tenant does not allow. kNoSpace: a
// quota or limit is exceeded. kConflict: borrowing without what the site demands for it.
Result<Ruling> rule_job(const TenantJob& job);

// Whether jobs of this tenant (an index; -1: of none) must be kept to their own nodes. kUnsupported where they must,
// and the nodes cannot do it.
Result<bool> must_be_alone(const SiteConfig& site, int tenant);

// Licences of a user's that begin like ours are refused, in GPU jobs and others.
Status check_licences(const std::string& licences);

// What remains of the submission after shape_job(): as if the user had asked so.
Submission with_shape(Submission given, const Shape& shape);

}  // namespace dl
