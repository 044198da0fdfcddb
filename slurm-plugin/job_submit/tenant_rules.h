// SPDX-License-Identifier: Apache-2.0
// Applies the tenant's quota and rules to a GPU job at its submission: the job is refused with the number that it
// exceeds, or charged either as the tenant's own or as borrowed. Pure.
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
  const Submission& given;            // after shape_job() and with_shape(), if the job has --dl-* flags
  const GpuCount& gpus;               // at least one GPU
  bool user_allowed = true;           // by the tenant's list of users
  bool slurm_limits_users = false;    // slurmdbd is there: slurmctld itself keeps max_user_gpus
  int64_t now_s = 0;
};

// Where dlpolicyd and not slurmctld enforces max_user_gpus, a job gets a begin time so many seconds ahead, which
// dlpolicyd removes when the job may start. Otherwise slurmctld would start it at once, whatever else its user runs.
constexpr int64_t kUserGateS = 30;

struct Ruling {
  std::string account;   // as dl.toml spells it
  std::string licences;  // those that the user asked for, and the tokens by which slurmctld counts the quota
  std::string label;     // for admin_comment
  std::string gpu_type;  // to be added to GPU requests without a type; empty: they stay as they are
  std::optional<uint32_t> max_nodes;  // fewer than the user asked for, or the number for which the job was charged
  std::optional<uint32_t> min_nodes;
  std::optional<int64_t> begin_s;
  policy::Charge charge = policy::Charge::kOwn;
  std::string message;  // lines for the user, each starting with "dl: "; may be empty
};

// kDenied: there is no account, it belongs to no tenant, or the tenant does not allow this user, framework or image.
// kNoSpace: a quota or limit is exceeded. kConflict: the job would borrow and lacks what the site requires for that.
Result<Ruling> rule_job(const TenantJob& job);

// Whether jobs of this tenant (its index; -1: no tenant) must be sealed (network = "job"). kUnsupported if they must,
// and dl.toml does not say that the nodes can do it.
Result<bool> must_be_alone(const SiteConfig& site, int tenant);

// Refuses licences that a user asks for and that begin like ours ("dl_"), in GPU jobs and in others.
Status check_licences(const std::string& licences);

// The submission as if the user had asked for the shape that shape_job() chose.
Submission with_shape(Submission given, const Shape& shape);

}  // namespace dl
