// SPDX-License-Identifier: Apache-2.0
// What a user must not change about a job after its submission. Pure.
#pragma once

#include <string>

#include "launcher/common/result.h"
#include "launcher/common/site_config.h"

namespace dl {

// `qos`, `partition`: what the user wants them to become; empty: unchanged. kDenied if one of them is what a tier
// stands for: a job changes its tier by a new submission with --dl-tier, where the rules of tiers are applied. Which
// job it is cannot be asked here (its record is private to slurmctld), so this holds for all jobs; [tiers] locked =
// false turns it off for sites whose tiers are ordinary QOS or partitions.
Status check_change(const SiteConfig& site, const std::string& qos, const std::string& partition);

}  // namespace dl
