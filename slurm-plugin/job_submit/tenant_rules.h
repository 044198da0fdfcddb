// SPDX-License-Identifier: Apache-2.0
// Applies the tenant's quota and rules to a GPU job at its submission: the job is refused with the number that it
// exceeds, or charged as the tenant's own or as borrowed. Pure.
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
  bool user_allowed = true;           // the tenant's list of users allows this one
  bool slurm_limits_users = false;    // slurmdbd knows the user, so slurmctld itself enforces max_user_gpus
  int64_t now_s = 0;
};

// If dlpolicyd, not slurmctld, enforces max_user_gpus, a job gets a begin time this many seconds ahead, which dlpolicyd
// removes when the job may start. Otherwise slurmctld would start it at once, whatever else its user runs.
constexpr int64_t kUserGateS = 30;

struct Ruling {
  std::string account;   // as dl.toml spells it
  std::string licences;  // the licences that the user asked for, and the tokens by which slurmctld counts the quota
  std::string label;     // text for admin_comment
  std::string gpu_type;  // added to GPU requests without a type; empty: they stay as they are
  // fewer than the user asked for, or the number for which the job is charged; none: no limit
  std::optional<uint32_t> max_nodes;
  std::optional<uint32_t> min_nodes;
  std::optional<int64_t> begin_s;
  policy::Charge charge = policy::Charge::kOwn;
  std::string message;  // for the user, one sentence on each line, each beginning with "dl: "; may be empty
};

// kDenied: there is no account, it belongs to no tenant, or the tenant does not allow this user, framework or image.
// kNoSpace: a quota or limit is exceeded. kConflict: the job would borrow, but lacks what the site requires of
// borrowing jobs. kInvalid: the list of licences becomes too long for Slurm.
Result<Ruling> rule_job(const TenantJob& job);

// Whether jobs of this tenant (an index; -1: no tenant) must be sealed (network = "job"). kUnsupported if they must,
// but dl.toml does not say that the nodes can do it.
Result<bool> must_be_alone(const SiteConfig& site, int tenant);

// Refuses a list of licences in which a user names tokens of slurm-dl (they begin with "dl_"), for jobs with or without
// GPUs.
Status check_licences(const std::string& licences);
// kUnsupported if Slurm's configuration (`declared`) lacks a licence that stands for GPUs of a job's tenant
// (`licences`). Slurm alone would refuse the job with "Invalid license specification".
Status check_declared(const std::string& licences, const std::string& declared);

// The submission as it would be if the user had asked for the shape that shape_job() chose.
Submission with_shape(Submission given, const Shape& shape);

}  // namespace dl
