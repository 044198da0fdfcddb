// SPDX-License-Identifier: Apache-2.0
// Decides which changes of a job its user must not make after its submission. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/site/site_config.h"

namespace dl {

// What an update asks for. False or empty: unchanged.
struct Change {
  std::string qos, partition;
  bool licences = false;
  bool account = false;
  bool admin_comment = false;
  bool nodes = false;
  bool tasks = false;
  bool gpus = false;
  bool cpus = false;
  bool memory = false;
  bool exclusive = false;          // whole nodes
  std::optional<int64_t> begin_s;  // the begin time, in seconds since 1970
};

// kDenied for changes that would evade the rules that were applied at submission:
//   - the QOS or partition of a tier. With tenants this holds for any QOS or partition, since a borrowing job could
//     otherwise leave the one in which it can be preempted. [tiers] locked = false allows these changes, for sites
//     that use tiers like other partitions.
//   - with tenants, everything that decides or records a job's charge: licences, account, admin_comment, the job's
//     size; its CPUs and memory if [quota] limits these (gpu_share.h).
// The rules are the same for all jobs, because only slurmctld can see the record of the job that is to be changed.
Status check_change(const SiteConfig& site, const Change& change);

// The begin time that the job gets instead of the one that its user wants: at least kLeastAheadS from now. nullopt: it
// gets what the user wants, or there are no tenants. There are two reasons. A job that starts again in the second in
// which it ended gets no prolog from slurmd, and so no seal (network/README.md). And dlpolicyd makes borrowers wait by
// begin times: if a user clears one, dlpolicyd sees the job before Slurm can start it.
std::optional<int64_t> least_begin(const SiteConfig& site, const Change& change, int64_t now_s);
constexpr int64_t kLeastAheadS = 3;

}  // namespace dl
