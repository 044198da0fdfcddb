// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/generate.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "slurm-plugin/sim/world/cluster.h"
#include "slurm-plugin/sim/world/dice.h"

namespace dl::sim {
namespace {

constexpr int64_t kMinute = 60;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kDay = 24 * kHour;

struct Chance {
  double part;
  int value;
};

// GPUs per learner: 1 in 53.1 %, 2 in 21.7 %, 3 and more in about 25 % (NIPS'17, section 5.2). "3 and more" is assumed
// to be mostly 4, else 8.
constexpr std::array kGpus{Chance{0.531, 1}, Chance{0.217, 2}, Chance{0.202, 4}, Chance{0.05, 8}};
// 96.2 % of the jobs have a single learner (same place). The numbers of the others are assumed.
constexpr std::array kLearners{Chance{0.962, 1}, Chance{0.020, 2}, Chance{0.012, 4}, Chance{0.006, 8}};

// Durations are assumed to be log-normal, from "processing at least minutes, outliers hours" (same place), and 40 hours
// for 90 data epochs of ImageNet on 4 GPUs. Half of the jobs take less than the median.
constexpr double kMedianRun = 45 * kMinute;
constexpr double kSpreadOfRun = 2.0;  // standard deviation of the logarithm
constexpr int64_t kShortest = 2 * kMinute;
constexpr int64_t kLongest = 7 * kDay;

// Submissions by hour of the day and by day of the week (assumed: people work by day).
constexpr std::array<double, 24> kHours{0.4, 0.3, 0.25, 0.2, 0.2, 0.25, 0.4, 0.7, 1.1, 1.5, 1.7, 1.7,
                                        1.4, 1.5, 1.8,  1.9, 1.8, 1.6,  1.3, 1.0, 0.9, 0.8, 0.7, 0.6};
constexpr double kWeekend = 0.45;

// A tenant's demand goes up and down from day to day (assumed): its logarithm is a first-order autoregressive process
// with this memory and this standard deviation. So there are days on which one tenant needs what another leaves idle.
constexpr double kMemoryOfDemand = 0.8;
constexpr double kSpreadOfDemand = 0.9;

template <size_t N>
int draw(const std::array<Chance, N>& chances, Dice* dice) {
  double left = dice->uniform();
  for (const Chance& chance : chances) {
    if (left < chance.part) return chance.value;
    left -= chance.part;
  }
  return chances.front().value;
}

struct Types {
  std::vector<std::string> names;
  std::vector<double> gpus;  // GPUs of each type
  std::vector<int> largest;  // GPUs of the largest node of each type
  double all = 0;

  explicit Types(const policy::ClusterState& cluster)
      : names(cluster.types), gpus(cluster.types.size()), largest(cluster.types.size()) {
    for (const policy::Node& node : cluster.nodes) {
      gpus[node.type] += node.gpus;
      all += node.gpus;
      largest[node.type] = std::max(largest[node.type], node.gpus);
    }
  }
  size_t draw(Dice* dice) const {
    double left = dice->uniform() * all;
    for (size_t i = 0; i + 1 < gpus.size(); ++i) {
      if (left < gpus[i]) return i;
      left -= gpus[i];
    }
    return gpus.size() - 1;
  }
};

TraceJob draw_job(const Shape& shape, const Types& types, Dice* dice) {
  TraceJob job;
  const size_t type = types.draw(dice);
  // If there are several types, one job in five takes any of them (assumed).
  const bool any = dice->uniform() < 0.2;
  if (types.names.size() > 1 && !any) job.type = types.names[type];
  job.gpus = std::min(draw(kGpus, dice), types.largest[type]);
  job.max_learners = draw(kLearners, dice);
  // No job asks for more than a quarter of a type's GPUs (assumed).
  const auto most = static_cast<int>(types.gpus[type] / 4) / job.gpus;
  job.max_learners = std::max(1, std::min(job.max_learners, most));
  job.min_learners = job.max_learners;
  // A third of the jobs with several learners are elastic, down to half of their learners (assumed).
  if (job.max_learners > 1 && dice->uniform() < 1.0 / 3) job.min_learners = job.max_learners / 2;
  if (job.min_learners < job.max_learners) job.serial = shape.serial;
  const double run = kMedianRun * std::exp(kSpreadOfRun * dice->normal());
  job.run_s = std::clamp(static_cast<int64_t>(run), kShortest, kLongest);
  // Users ask for 1.1 to 4 times the time that they need, in whole hours (assumed).
  const double limit = static_cast<double>(job.run_s) * (1.1 + 2.9 * dice->uniform());
  job.limit_s = (static_cast<int64_t>(limit) / kHour + 1) * kHour;
  // One job in ten cannot be paused; the others save every 10 to 60 minutes, and need 30 to 120 s for a restart
  // (assumed).
  const bool pausable = dice->uniform() >= 0.1;
  job.checkpoint_s = dice->from(1, 6) * 10 * kMinute;
  if (!pausable) job.checkpoint_s = 0;
  job.restart_s = dice->from(30, 120);
  const double tier = dice->uniform();
  job.tier = Tier::kAuto;
  if (tier < shape.guaranteed) {
    job.tier = Tier::kGuaranteed;
  } else if (tier < shape.guaranteed + shape.borrow) {
    job.tier = Tier::kBorrow;
  }
  return job;
}

// How much each tenant asks for on each day, as parts of the whole: in proportion to its size, with ups and downs.
class Demand {
 public:
  Demand(const policy::ClusterState& cluster, const Shape& shape, size_t days, Dice* dice) {
    for (const policy::Tenant& tenant : cluster.tenants) {
      names_.push_back(tenant.name);
      sizes_.push_back(1.0 + tenant.quota.total());
    }
    for (int i = 0; cluster.tenants.empty() && i < shape.tenants; ++i) {
      names_.push_back(fmt::format("t{}", i + 1));
      sizes_.push_back(1.0 / std::sqrt(i + 1.0));  // assumed
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      double level = kSpreadOfDemand * dice->normal();
      for (size_t day = 0; day < days; ++day) {
        if (day >= by_day_.size()) by_day_.emplace_back();
        by_day_[day].push_back(sizes_[i] * std::exp(level));
        level = kMemoryOfDemand * level +
                std::sqrt(1 - kMemoryOfDemand * kMemoryOfDemand) * kSpreadOfDemand * dice->normal();
      }
    }
  }
  const std::string& draw(size_t day, Dice* dice) const {
    const std::vector<double>& parts = by_day_[std::min(day, by_day_.size() - 1)];
    double all = 0;
    for (const double part : parts) all += part;
    double left = dice->uniform() * all;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      if (left < parts[i]) return names_[i];
      left -= parts[i];
    }
    return names_.back();
  }

 private:
  std::vector<std::string> names_;
  std::vector<double> sizes_;
  std::vector<std::vector<double>> by_day_;
};

double rate_at(int64_t hour) {
  const int64_t day = hour / 24 % 7;
  return kHours[static_cast<size_t>(hour % 24)] * (day >= 5 ? kWeekend : 1.0);
}

// Draws a time of submission; `steps` are the cumulative rates of the hours.
int64_t draw_time(const std::vector<double>& steps, double end_s, Dice* dice) {
  const double at = dice->uniform() * steps.back();
  const auto hour = std::upper_bound(steps.begin(), steps.end(), at) - steps.begin();
  const double within = dice->uniform() * static_cast<double>(kHour);
  return static_cast<int64_t>(std::min(static_cast<double>(hour * kHour) + within, end_s));
}

}  // namespace

Trace generate(const Shape& shape, const policy::ClusterState& cluster) {
  Dice dice(shape.seed);
  const Types types(cluster);
  const double end_s = shape.days * static_cast<double>(kDay);
  std::vector<double> steps;
  for (int64_t hour = 0; static_cast<double>(hour * kHour) < end_s; ++hour)
    steps.push_back((steps.empty() ? 0 : steps.back()) + rate_at(hour));
  const Demand demand(cluster, shape, steps.size() / 24 + 1, &dice);
  Trace trace;
  double left_gpu_s = shape.load * types.all * end_s;
  // Jobs are added until they make up the load; there is at least one.
  do {
    TraceJob job = draw_job(shape, types, &dice);
    job.submit_s = draw_time(steps, end_s, &dice);
    job.tenant = demand.draw(static_cast<size_t>(job.submit_s / kDay), &dice);
    left_gpu_s -= static_cast<double>(job.run_s) * job.max_learners * job.gpus;
    trace.jobs.push_back(std::move(job));
  } while (left_gpu_s > 0);
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; });
  int64_t id = 0;
  for (TraceJob& job : trace.jobs) job.id = ++id;
  return trace;
}

}  // namespace dl::sim
