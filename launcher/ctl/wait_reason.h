// SPDX-License-Identifier: Apache-2.0
// The table that explains in words each reason for which Slurm lets a job wait, in all versions from 22.05 to 26.05.
// Pure.
//
// About 60 reasons have a row. Slurm composes about 200 more, those of limits, from parts, which are parsed here:
// QOSMaxGRESPerUser is a QOS's Max limit on GRES per user.
#pragma once

#include <optional>
#include <string>

namespace dl::ctl {

// Which facts explain a reason further.
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
  bool for_ever;            // it cannot start unless the job or the site's settings change
  const char* advice = "";  // what the job's owner can do; %J stands for the job id
};

// nullptr if it has no row; `reason` as squeue ("ReqNodeNotAvail, UnavailableNodes:n2") or scontrol prints it
// ("ReqNodeNotAvail,_UnavailableNodes:n2").
const ReasonRow* find_reason(const std::string& reason);

// A reason that names a limit.
struct LimitReason {
  std::string key;       // as `scontrol show assoc_mgr` calls it: "GrpTRES", "MaxJobsPU", "MaxWallPJ"
  std::string tres;      // "cpu", "gres/gpu", ...; empty: not a limit of TRES
  std::string what;      // "GPUs", "running jobs", "minutes of CPUs that running jobs may still use"
  bool qos = false;      // limit of a QOS; false: of an account or user
  bool group = false;    // limit of all jobs together (Grp...)
  bool per_job = false;  // limit of each single job: waiting does not help
  bool minimum = false;  // a minimum: the job asks for less
  std::string per;       // "of each user", "of each job", "of each account", "of each node"; empty: of all together
};
std::optional<LimitReason> parse_limit_reason(const std::string& reason);

// True for the reasons by which Slurm keeps a job waiting for a limit of its user, account or QOS, or for a licence.
bool is_quota_reason(const std::string& reason);
// Slurm's reason in a few words, with its own word in parentheses: "the quota is used up (QOSGrpGRES)".
std::string explain_reason(const std::string& reason);

}  // namespace dl::ctl
