// SPDX-License-Identifier: Apache-2.0
// What ./run measures: one elastic::optimise() of a made-up cluster.
//
//     optimise_once KIND JOBS GPUS SEED    prints the seconds that it took, and two parts of the bound
//     that no answer exceeds: what was found, and what single steps find (0 with two types, and for completions)
//
// A tenant for each 40 GPUs, whose limits add up to twice the GPUs; jobs of 1 to 64 GPUs whose speed follows Amdahl's
// law with a communication part; half of the jobs run. KIND: `smooth`: every size is possible; `powers`: powers of 2
// alone; `bumpy`: sizes that do not divide the nodes lose a third; `types`: two types of GPU; `completion`: every size,
// for jobs completed per second, of which half have a known end.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <queue>
#include <random>
#include <string>

#include "slurm-plugin/policy/elastic/limits.h"
#include "slurm-plugin/policy/elastic/problem.h"
#include "slurm-plugin/policy/elastic/value.h"

namespace dl::policy::elastic {
namespace {

constexpr int kMostOfJob = 64;
constexpr const char* kKinds[] = {"smooth", "powers", "bumpy", "types", "completion"};

bool is_known(const std::string& kind) {
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15U + 1) {}
  int from(int low, int high) { return low + static_cast<int>(engine_() % static_cast<uint64_t>(high - low + 1)); }
  double part() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }

 private:
  std::mt19937_64 engine_;
};

Job job_of(const std::string& kind, int types, Dice* dice) {
  Job job;
  const double serial = 0.001 + 0.1 * dice->part();
  const double talk = 0.02 * dice->part();
  const int most = 1 << dice->from(0, 6);
  for (int type = 0; type < types; ++type) {
    const double fast = type == 0 ? 1 : 1 + dice->part();
    for (int g = 1; g <= std::min(most, kMostOfJob); kind == "powers" ? g *= 2 : ++g) {
      double speed = fast / (serial + (1 - serial) / g + talk * std::log2(g));
      if (kind == "bumpy" && g > 8 && g % 8 != 0) speed *= 2.0 / 3;
      job.points.push_back({type, g, (g + 7) / 8, 0, speed});
    }
  }
  job.age_s = dice->from(0, 100'000);
  job.restart_s = dice->from(10, 120);
  job.restarts = dice->from(0, 5);
  job.left_s = dice->from(0, 1) * dice->from(60, 100'000);
  job.waited_s = dice->from(0, 10'000);
  return job;
}

Problem problem_of(const std::string& kind, int jobs, int gpus, uint64_t seed) {
  Dice dice(seed);
  Problem problem;
  problem.types = kind == "types" ? 2 : 1;
  if (kind == "completion") problem.objective = Objective::kCompletion;
  problem.shares.push_back({kNothing, std::vector<int>(problem.types, gpus / problem.types)});
  const int tenants = std::max(1, gpus / 40);
  for (int i = 0; i < tenants; ++i)
    problem.shares.push_back({0, std::vector<int>(problem.types, 2 * gpus / tenants / problem.types)});
  std::vector<Limits> left;
  for (int type = 0; type < problem.types; ++type) left.emplace_back(problem, type);
  for (int i = 0; i < jobs; ++i) {
    Job job = job_of(kind, problem.types, &dice);
    job.share = dice.from(1, tenants);
    const int now = dice.from(0, static_cast<int>(job.points.size()) - 1);
    const Point& at = job.points[now];
    if (i % 2 == 0 && at.gpus <= left[at.type].left(job.share)) {
      left[at.type].take(job.share, at.gpus);
      job.now = now;
    }
    problem.jobs.push_back(std::move(job));
  }
  return problem;
}

// The peer: one size up for whom it brings most, as long as anything fits (as in Optimus, EuroSys 2018).
double by_single_steps(const Problem& problem) {
  Limits left(problem, 0);
  std::vector<std::vector<Option>> options;
  std::vector<size_t> at(problem.jobs.size());
  std::priority_queue<std::pair<double, int>> next;
  double value = 0;
  const auto offer = [&](int job) {
    if (at[job] + 1 >= options[job].size()) return;
    const Option& a = options[job][at[job]];
    const Option& b = options[job][at[job] + 1];
    next.emplace((b.value - a.value) / (b.gpus - a.gpus), job);
  };
  for (size_t i = 0; i < problem.jobs.size(); ++i) {
    options.push_back(options_of(problem, static_cast<int>(i), 0));
    if (options[i].front().gpus > left.left(problem.jobs[i].share)) {
      at[i] = options[i].size();
      continue;
    }
    left.take(problem.jobs[i].share, options[i].front().gpus);
    value += options[i].front().value;
    offer(static_cast<int>(i));
  }
  while (!next.empty()) {
    const int job = next.top().second;
    next.pop();
    const Option& a = options[job][at[job]];
    const Option& b = options[job][at[job] + 1];
    if (b.gpus - a.gpus > left.left(problem.jobs[job].share)) continue;
    left.take(problem.jobs[job].share, b.gpus - a.gpus);
    value += b.value - a.value;
    ++at[job];
    offer(job);
  }
  return value;
}

}  // namespace
}  // namespace dl::policy::elastic

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: optimise_once smooth|powers|bumpy|types|completion JOBS GPUS SEED\n");
    return 2;
  }
  namespace elastic = dl::policy::elastic;
  if (!elastic::is_known(argv[1])) {
    fmt::print(stderr, "optimise_once: '{}' is not a kind of jobs; allowed: smooth, powers, bumpy, types, completion\n",
               argv[1]);
    return 2;
  }
  const auto problem =
      elastic::problem_of(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::strtoull(argv[4], nullptr, 10));
  const auto began = std::chrono::steady_clock::now();
  const auto answer = elastic::optimise(problem);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const bool has_peer = problem.types == 1 && problem.objective == elastic::Objective::kSpeedUp;
  const double peer = has_peer ? elastic::by_single_steps(problem) : 0;
  fmt::print("{} {} {}\n", seconds, answer.value / answer.bound, peer / answer.bound);
  return 0;
}
