// SPDX-License-Identifier: Apache-2.0
// Ends waiting jobs that are not admitted, where dl.toml has [elastic] admission = "drop" (policy/drop.h says which
// these are). One message holds the job, and puts into its label what it lacked:
//
//     dropped=GPUS:ROOM@TIME
//
// and a second one ends it. Slurm refuses the first if the job has just started, and then it is not ended. A daemon
// that takes over between the two ends it, too. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slurm-plugin/policyd/planner.h"

namespace dl::policyd {

// The actions that end these jobs, and those whose label says that they are to be ended. after_s:
// SiteElastic::drop_after; nothing: nobody is dropped now.
std::vector<Action> drop_actions(const observe::ClusterView& view, const observe::Records& records,
                                 const policy::Decision& decision, std::optional<int64_t> after_s);

// Puts them in front, in place of all else that was to be done about these jobs.
void put_first(std::vector<Action> drops, std::vector<Action>* actions);

}  // namespace dl::policyd
