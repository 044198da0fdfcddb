// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/attempt.h"

#include <algorithm>

namespace dl::supervise {

using namespace protocol;

Attempt::Attempt(const plan::LaunchPlan& plan, const SiteIdle& site_idle, int64_t now_ms, int64_t now_unix_ms)
    : learners(static_cast<size_t>(plan.world_size())),
      started_ms(now_ms),
      started_unix_ms(now_unix_ms),
      slow(learners.size()),
      idle(learners.size(), site_idle) {
  for (size_t rank = 0; rank < learners.size(); ++rank)
    learners[rank].host = plan.nodes[static_cast<size_t>(plan.learners[rank].node)].name;
}

bool Attempt::all_said_hello() {
  return all(&hello_below_, [](const Learner& l) { return l.said_hello; });
}
bool Attempt::all_started() {
  return all(&started_below_, [](const Learner& l) { return l.started || l.ended; });
}
bool Attempt::all_ended() {
  return all(&ended_below_, [](const Learner& l) { return l.ended; });
}

bool Attempt::all_run(int64_t now_ms) {
  if (running_since_ms_ != 0) return false;
  running_since_ms_ = last_save_ms_ = now_ms;
  return true;
}

bool Attempt::save_due(int64_t now_ms, int64_t every_ms) const {
  return running_since_ms_ != 0 && now_ms - last_save_ms_ >= every_ms;
}

double Attempt::running_s(int64_t now_ms) const {
  return running_since_ms_ == 0 ? 0 : static_cast<double>(now_ms - running_since_ms_) / 1000;
}

std::optional<int64_t> Attempt::progressed(int rank, const Progress& progress, int64_t now_ms) {
  Learner& learner = learners[static_cast<size_t>(rank)];
  if (progress.step > learner.step && learner.step >= 0 && now_ms > learner.step_seen_ms) {
    const int64_t each = (now_ms - learner.step_seen_ms) / (progress.step - learner.step);
    step_ms_ = step_ms_ == 0 ? each : (3 * step_ms_ + each) / 4;
  }
  if (progress.step != learner.step) {
    learner.step_seen_ms = now_ms;
    learner.times.add(now_ms, progress.step);
  }
  learner.page_state = progress.state;
  learner.ever_attached = learner.ever_attached || progress.state != ProgressPage::kNotAttached;
  learner.step = progress.step;
  learner.save_ms = progress.save_ms;
  learner.local_ms = progress.local_ms;
  learner.cost_ms = progress.cost_ms;
  learner.noise = progress.noise;
  if (progress.saved_step <= learner.saved_step) return std::nullopt;
  learner.saved_step = progress.saved_step;
  last_save_ms_ = now_ms;
  return learner.saved_step;
}

void Attempt::stands_at(int rank, const StepReport& report) {
  Learner& learner = learners[static_cast<size_t>(rank)];
  learner.page_state = report.state;
  learner.ever_attached = learner.ever_attached || report.attached;
  learner.step = std::max(learner.step, report.step);
}

SaveTimes Attempt::save_times() const {
  SaveTimes times;
  for (const Learner& learner : learners) {
    times.save_ms = std::max(times.save_ms, learner.save_ms);
    times.local_ms = std::max(times.local_ms, learner.local_ms);
  }
  times.step_ms = static_cast<uint64_t>(std::max<int64_t>(step_ms_, 0));
  return times;
}

SaveCosts Attempt::save_costs() const {
  SaveCosts costs;
  for (const Learner& learner : learners) {
    costs.cost_s = std::max(costs.cost_s, static_cast<double>(learner.cost_ms) / 1000);
    costs.durable_s = std::max(costs.durable_s, static_cast<double>(learner.save_ms) / 1000);
  }
  return costs;
}

int64_t Attempt::newest_saved_step() const {
  int64_t newest = -1;
  for (const Learner& learner : learners) newest = std::max(newest, learner.saved_step);
  return newest;
}

bool Attempt::any_attached() const {
  return std::any_of(learners.begin(), learners.end(), [](const Learner& learner) { return learner.ever_attached; });
}

}  // namespace dl::supervise
