// SPDX-License-Identifier: Apache-2.0
// How a job scales, for dlctl: its record (launcher/record/scaling_record.h) and the fitted model, as a table, a
// sentence, JSON and a picture. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"
#include "common/scaling/model.h"
#include "launcher/record/scaling_record.h"

namespace dl::ctl {

struct ScalingRow {
  scaling::Size size;
  scaling::Prediction prediction;
  double efficiency = 1;  // what a sample of this batch is worth, against one of the smallest batch
  double goodput() const { return prediction.samples_per_s * efficiency; }
  double speed_up = 1;  // goodput against that of base_learners
  bool now = false;     // the size at which the job runs now
};

struct ScalingView {
  record::ScalingRecord record;
  scaling::Model model;
  std::vector<ScalingRow> rows;  // from few learners to many
  int base_learners = 1;         // learners with a speed-up of 1: one, or the fewest that the job may have
  std::optional<int> probe;      // learners whose measurement would improve the model most
  bool counts_samples() const { return !record.batch.empty(); }
};

// kBusy if nothing was measured yet.
Result<ScalingView> view_scaling(const record::ScalingRecord& record);

std::string scaling_text(const ScalingView& view, const std::string& job);
// "4 learners: 812 samples/s, 3.4 times 1 learner; 8 would give 5.9 times (fitted)"
std::string scaling_sentence(const ScalingView& view);
Json scaling_json(const ScalingView& view, const std::string& job);
std::string scaling_svg(const ScalingView& view, const std::string& job);

}  // namespace dl::ctl
