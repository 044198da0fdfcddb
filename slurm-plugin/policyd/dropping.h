// SPDX-License-Identifier: Apache-2.0
// Ends waiting jobs that are not admitted, where dl.toml has [elastic] admission = "drop" (policy/drop.h says which
// these are). One message holds the job, and puts into its label what it lacked:
//
//     dropped=GPUS:ROOM@TIME
//
// and a second one ends it. Slurm refuses the first if the job has just started, and then it is not ended. A daemon
// that takes over between the two ends it, too, unless it has begun since, as when an operator has released it: then
// planner.cpp takes the word out of its label. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slurm-plugin/policyd/planner.h"

namespace dl::policyd {

// The actions that end these jobs, and those whose label says that they are to be ended. after_s:
// SiteElastic::drop_after; nothing: nobody is dropped now.
std::vector<Action> drop_actions(const observe::ClusterView& view, const observe::Records& records,
                                 const policy::Decision& decision, std::optional<int64_t> after_s);

// Whether the job runs, or has run before, so that there may be work in it.
bool has_begun(const observe::SeenJob& seen, const observe::JobRecord& record);
// Takes `dropped` out of the label of a job that has begun, and says so in `why` if that is empty. False: it is not
// there, or stays.
bool unmark_begun(const observe::SeenJob& seen, const observe::JobRecord& record, policy::JobLabel* label,
                  std::string* why);

// Puts them in front, in place of all else that was to be done about these jobs.
void put_first(std::vector<Action> drops, std::vector<Action>* actions);

}  // namespace dl::policyd
