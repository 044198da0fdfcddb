// SPDX-License-Identifier: Apache-2.0
// The reasons for which Slurm lets a job wait, in words: THE table, of all versions from 22.05 to 26.05. Pure.
//
// Some 60 reasons have a row. The some 200 of limits are put together by Slurm from parts, and taken apart here:
// QOSMaxGRESPerUser is the Max limit of a QOS, of GRES, per user.
#pragma once

#include <optional>
#include <string>

namespace dl::ctl {

// Which facts say more about a reason.
enum class About {
  kNothing,
  kQueue,       // jobs ahead
  kRoom,        // what is free
  kSize,        // what a partition has and allows
  kTime,        // a time limit
  kBegin,       // a begin time
  kDependency,  // other jobs
  kHeld,        // who may release it
  kNodes,       // nodes that it asks for, or that are out
  kReservation,
  kLicences,
  kArray,  // how many elements may run
  kLimit,  // of a QOS, account or user
};

struct ReasonRow {
  const char* name;   // as Slurm spells it
  const char* words;  // completes "it waits: ..."
  About about;
  bool for_ever;            // nothing but a change of the job or of the site's settings will let it start
  const char* advice = "";  // what its owner may do; %J is the job
};

// None if it has no row; `reason` as squeue ("ReqNodeNotAvail, UnavailableNodes:n2") or scontrol prints it
// ("ReqNodeNotAvail,_UnavailableNodes:n2").
const ReasonRow* find_reason(const std::string& reason);

// A reason that names a limit.
struct LimitReason {
  std::string key;       // as `scontrol show assoc_mgr` calls it: "GrpTRES", "MaxJobsPU", "MaxWallPJ"
  std::string tres;      // "cpu", "gres/gpu", ...; empty: it is none of TRES
  std::string what;      // "GPUs", "running jobs", "minutes of CPUs that running jobs may still use"
  bool qos = false;      // of a QOS, else of the account or user
  bool group = false;    // of all jobs together
  bool per_job = false;  // of this job alone: waiting does not help
  bool minimum = false;  // the job asks for less than it must
  std::string per;       // "of each user", "of each job", "of each account", "of each node"; empty: of all together
};
std::optional<LimitReason> parse_limit_reason(const std::string& reason);

// True for the reasons by which Slurm keeps a job waiting for a limit of its user, account or QOS, or for a licence.
bool is_quota_reason(const std::string& reason);
// Slurm's reason in a few words, with its own word in parentheses: "the quota is used up (QOSGrpGRES)".
std::string explain_reason(const std::string& reason);

}  // namespace dl::ctl
