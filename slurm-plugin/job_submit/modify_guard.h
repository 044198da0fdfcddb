// SPDX-License-Identifier: Apache-2.0
// What a user must not change about a job after its submission. Pure.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/site/site_config.h"

namespace dl {

// What an update asks for. False, empty: unchanged.
struct Change {
  std::string qos, partition;
  bool licences = false;
  bool account = false;
  bool admin_comment = false;
  bool nodes = false;
  bool tasks = false;
  bool gpus = false;
  bool exclusive = false;  // whole nodes
};

// kDenied for what would take a job past the rules that were applied at its submission:
// - a QOS or partition that a tier stands for; with tenants, any QOS or partition, since a borrowing job would leave
// the
//   one where it can be preempted. [tiers] locked = false turns this off for sites whose tiers are ordinary ones.
// - with tenants, what a job's charge follows from or is kept in: licences, account, admin_comment, its size.
// Which job it is cannot be asked here (its record is private to slurmctld), so this holds for all jobs.
Status check_change(const SiteConfig& site, const Change& change);

}  // namespace dl
