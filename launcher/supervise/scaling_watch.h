// SPDX-License-Identifier: Apache-2.0
// What the train steps of an attempt say about how the job scales: one measurement of its size, once they have settled.
// Pure; the supervisor writes it to scaling.json.
#pragma once

#include <optional>
#include <vector>

#include "common/scaling/model.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/record/scaling_record.h"
#include "launcher/supervise/attempt.h"

namespace dl::supervise {

// The record of this run without measurements: what its jobs have in common, and the size that it has now.
record::ScalingRecord scaling_record_of(const plan::LaunchPlan& plan);

// None before most learners of the attempt have shown enough train steps. A learner goes at the pace of all where steps
// end in a collective; so the median over learners counts, of each one's average without what took much longer.
std::optional<scaling::Measured> measure(const std::vector<Learner>& learners, int deciding, const scaling::Size& size,
                                         int64_t now_unix_s);

}  // namespace dl::supervise
