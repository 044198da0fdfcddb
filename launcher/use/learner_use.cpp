// SPDX-License-Identifier: Apache-2.0
#include "launcher/use/learner_use.h"

#include <algorithm>

namespace dl::use {
namespace {

constexpr double kLeastLookS = 0.5;  // a shorter look, at the learner's end, says little of what is used at one time

void add_measured(int64_t value, std::optional<double>* sum) {
  if (value >= 0) *sum = sum->value_or(0) + static_cast<double>(value);
}

void keep_highest(double value, std::optional<double>* most) {
  *most = std::max(most->value_or(value), value);
}

std::optional<double> share_of(double part, double whole) {
  return whole > 0 ? std::optional(part / whole) : std::nullopt;
}

}  // namespace

void LearnerUse::add(const protocol::Use& report) {
  const double over_s = static_cast<double>(report.over_ms) / 1000;
  if (report.cpu_ms >= 0) {
    const double cpu_s = static_cast<double>(report.cpu_ms) / 1000;
    cpu_s_ = cpu_s_.value_or(0) + cpu_s;
    cpu_over_s_ += over_s;
    if (over_s >= kLeastLookS) keep_highest(cpu_s / over_s, &most_cpus_);
  }
  // What stands in the control group of a node is that of all learners there.
  const int64_t memory = report.own_memory >= 0 ? report.own_memory : report.memory_of == 1 ? report.memory : -1;
  if (memory >= 0) keep_highest(static_cast<double>(memory), &memory_);
  add_measured(report.read, &read_);
  add_measured(report.written, &written_);
}

void LearnerUse::add(const protocol::GpuUse& report) {
  const double time_s = static_cast<double>(report.over_ms) / 1000 * report.gpus;
  gpu_time_s_ += time_s;
  gpu_busy_s_ += static_cast<double>(report.busy_ms) / 1000;
  if (report.sm_ms >= 0) {
    sm_time_s_ += time_s;
    sm_busy_s_ += static_cast<double>(report.sm_ms) / 1000;
  }
  gpus_measured_ = report.gpus;
  if (report.memory >= 0) keep_highest(static_cast<double>(report.memory), &gpu_memory_);
  joules_lost_ = joules_lost_ || report.millijoules < 0;
  if (report.millijoules >= 0) joules_ = joules_.value_or(0) + static_cast<double>(report.millijoules) / 1000;
}

Facts LearnerUse::facts(int gpus, int cpus) const {
  Facts facts;
  facts.gpus = gpus;
  facts.gpus_measured = std::min(gpus_measured_, gpus);
  facts.gpu_share = share_of(gpu_busy_s_, gpu_time_s_);
  facts.sm_share = share_of(sm_busy_s_, sm_time_s_);
  if (!joules_lost_) facts.joules = joules_;
  facts.gpu_memory = gpu_memory_;
  facts.cpus = cpus;
  facts.cpu_seconds = cpu_s_;
  if (cpu_s_) facts.cpus_used = share_of(*cpu_s_, cpu_over_s_);
  facts.most_cpus_used = most_cpus_;
  facts.memory = memory_;
  facts.read = read_;
  facts.written = written_;
  return facts;
}

}  // namespace dl::use
