// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/elastic/workload.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "common/base/parse.h"
#include "slurm-plugin/sim/world/dice.h"

namespace dl::sim {
namespace {

// Run times at the size that the user asked for: log-normally distributed with this median and spread, within limits.
// Most trainings are short, and a few long ones use most of the GPU time, as in all published traces.
constexpr double kMedianRunS = 15 * 60;
constexpr double kSpread = 1.0;
constexpr double kShortestRunS = 60;
constexpr double kLongestRunS = 6 * 3600;

// The sizes that users ask for, and how often they do.
struct Asked {
  int gpus;
  double part;
};
constexpr Asked kAsked[] = {{1, 0.5}, {2, 0.2}, {4, 0.2}, {8, 0.1}};

double mean_run_s() {
  return kMedianRunS * std::exp(kSpread * kSpread / 2);
}

// The nearest size that can be used: the next smaller one, or where there is none, the smallest.
int usable(const std::vector<Speed>& speeds, int gpus) {
  int at = std::min<int>(gpus, static_cast<int>(speeds.size()) - 1);
  while (at > 1 && speeds[at].samples_s == 0) --at;
  while (speeds[at].samples_s == 0) ++at;
  return at;
}

double mean_asked(const Category& category, const std::vector<Speed>& speeds) {
  if (category.asked > 0) return usable(speeds, category.asked);
  double mean = 0;
  for (const Asked& row : kAsked) mean += usable(speeds, row.gpus) * row.part;
  return mean;
}

int asked_by(double dice) {
  for (const Asked& row : kAsked) {
    if (dice < row.part) return row.gpus;
    dice -= row.part;
  }
  return kAsked[0].gpus;
}

}  // namespace

const std::vector<Category>& categories() {
  // A train step takes 2 ms that do not shrink with more GPUs, plus the time of its samples. "compute" computes long
  // and communicates little (image models); "balanced" is in between; "communication" communicates much for its
  // computing (large embeddings); "fixed" is like "balanced", but its batch cannot grow.
  static const std::vector<Category> kCategories = {
      {"compute", 0.002, 0.0040, 0.002, 0.004, 64, 2048, 64, 0.25},
      {"balanced", 0.002, 0.0015, 0.003, 0.008, 64, 1024, 32, 0.25},
      {"communication", 0.002, 0.0006, 0.005, 0.015, 64, 1024, 16, 0.25},
      {"fixed", 0.002, 0.0015, 0.003, 0.008, 64, 64, 32, 0.25},
  };
  return kCategories;
}

Result<std::vector<Category>> parse_categories(const std::string& text) {
  if (text == "all") return categories();
  std::vector<Category> chosen;
  std::string names = "all";
  for (const Category& row : categories()) names += ", " + row.name;
  for (const std::string& name : split(text, ',')) {
    const auto found =
        std::find_if(categories().begin(), categories().end(), [&](const Category& row) { return name == row.name; });
    if (found == categories().end())
      return Error{Errc::kInvalid, fmt::format("'{}' is not a category of jobs; allowed: {}", printable(name), names)};
    chosen.push_back(*found);
  }
  if (chosen.empty()) return Error{Errc::kInvalid, fmt::format("'' is not a category of jobs; allowed: {}", names)};
  return chosen;
}

std::vector<Speed> speeds(const Category& c, int gpus_per_node, bool vary) {
  std::vector<Speed> found(c.most_gpus + 1);
  for (const CurvePoint& point : c.curve)
    if ((vary || point.speed.batch == c.batch) && point.speed.samples_s > found[point.gpus].samples_s)
      found[point.gpus] = point.speed;
  if (!c.curve.empty()) return found;
  for (int g = 1; g <= c.most_gpus; ++g) {
    const double talk = (g > 1 ? c.talk_s * std::log2(g) : 0) + (g > gpus_per_node ? c.node_talk_s : 0);
    for (int64_t batch = c.batch; batch <= (vary ? c.most_batch : c.batch); batch *= 2) {
      const double step_s = c.step_s + c.sample_s * static_cast<double>(batch) / g + talk;
      const double samples_s = static_cast<double>(batch) / step_s;
      if (samples_s > found[g].samples_s) found[g] = {batch, samples_s};
    }
  }
  return found;
}

std::vector<ElasticJob> jobs_of(const Workload& workload) {
  Dice dice(workload.seed);
  double parts = 0, asked = 0;
  std::vector<std::vector<Speed>> at;
  for (const Category& category : workload.categories) {
    at.push_back(speeds(category, workload.gpus_per_node, false));
    parts += category.part;
    asked += category.part * mean_asked(category, at.back());
  }
  const double between_s = mean_run_s() * asked / parts / (workload.load * workload.gpus);
  std::vector<ElasticJob> jobs;
  for (double now_s = 0; jobs.empty() || now_s < workload.hours * 3600;
       now_s -= between_s * std::log(1 - dice.uniform())) {
    ElasticJob job;
    job.submit_s = now_s;
    double which = dice.uniform() * parts;
    while (job.category + 1 < static_cast<int>(workload.categories.size()) &&
           which >= workload.categories[job.category].part)
      which -= workload.categories[job.category++].part;
    const int drawn = asked_by(dice.uniform());
    const int asked_here = workload.categories[job.category].asked;
    job.asked = usable(at[job.category], std::min(asked_here > 0 ? asked_here : drawn, workload.gpus));
    const double run_s = std::clamp(kMedianRunS * std::exp(kSpread * dice.normal()), kShortestRunS, kLongestRunS);
    job.samples = run_s * at[job.category][job.asked].samples_s;
    jobs.push_back(job);
  }
  return jobs;
}

}  // namespace dl::sim
