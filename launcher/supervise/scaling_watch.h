// SPDX-License-Identifier: Apache-2.0
// Makes one measurement of a job's speed at its present size from the train steps of an attempt. Pure; the supervisor
// writes it to scaling.json.
#pragma once

#include <optional>
#include <vector>

#include "common/scaling/model.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/record/scaling_record.h"
#include "launcher/supervise/attempt.h"

namespace dl::supervise {

// The record of this run without measurements: its name, framework and so on, and its present size.
record::ScalingRecord scaling_record_of(const plan::LaunchPlan& plan);

// Returns none until half of the first `deciding` learners have shown enough train steps, and if the result is not
// sane(). The result is the median of the learners' steady_ms(), since all learners go at one pace if train steps end
// in a collective.
std::optional<scaling::Measured> measure(const std::vector<Learner>& learners, int deciding, const scaling::Size& size,
                                         int64_t now_unix_s);

}  // namespace dl::supervise
