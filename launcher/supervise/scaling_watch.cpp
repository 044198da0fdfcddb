// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/scaling_watch.h"

#include <algorithm>

#include "common/base/median.h"

namespace dl::supervise {
namespace {

constexpr size_t kMostName = 200;

}  // namespace

record::ScalingRecord scaling_record_of(const plan::LaunchPlan& plan) {
  record::ScalingRecord record;
  record.name = plan.job_name;
  if (record.name.empty()) {
    // Without Slurm a run has no name; its command says what it is.
    for (const std::string& word : plan.command) record.name += (record.name.empty() ? "" : " ") + word;
    record.name.resize(std::min(record.name.size(), kMostName));
  }
  record.framework = plan.framework;
  record.gpu_type = plan.gpu_type;
  record.gpus_per_learner = plan.gpus_per_learner;
  record.asked = plan.asked;
  record.now.learners = plan.learner_count();
  record.now.nodes =
      static_cast<int>(std::count_if(plan.nodes.begin(), plan.nodes.end(),
                                     [](const plan::PlannedNode& node) { return node.learners > node.servers; }));
  record.now.nodes = std::clamp(record.now.nodes, 1, std::max(1, record.now.learners));
  record.now.batch = plan.batch ? plan.split.batch : record.now.learners;
  record.now.passes = plan.batch ? plan.split.accumulation : 1;
  if (plan.batch) record.batch = format_batch(*plan.batch);
  return record;
}

std::optional<scaling::Measured> measure(const std::vector<Learner>& learners, int deciding, const scaling::Size& size,
                                         int64_t now_unix_s) {
  std::vector<double> times, spreads;
  scaling::Measured measured;
  for (int rank = 0; rank < deciding && rank < static_cast<int>(learners.size()); ++rank) {
    const StepTimes& its = learners[static_cast<size_t>(rank)].times;
    const auto step_ms = its.steady_ms();
    if (!step_ms) continue;
    times.push_back(*step_ms / 1000);
    spreads.push_back(its.spread_ms() / 1000);
    measured.steps = std::max(measured.steps, its.steps());
  }
  if (times.empty() || 2 * times.size() < static_cast<size_t>(deciding)) return std::nullopt;
  measured.size = size;
  measured.step_s = median(times);
  measured.spread_s = median(spreads);
  measured.time_s = now_unix_s;
  if (!scaling::sane(measured)) return std::nullopt;
  return measured;
}

}  // namespace dl::supervise
