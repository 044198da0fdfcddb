// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/elastic/experiment.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "slurm-plugin/policy/elastic/problem.h"
#include "slurm-plugin/sim/engine/outcome.h"

namespace dl::sim {
namespace {

namespace elastic = policy::elastic;
using Clock = std::chrono::steady_clock;

constexpr double kNever = 1e18;  // seconds
constexpr double kDone = 1e-6;   // less work than this counts as none, since sums are rounded

struct Live {
  int job = 0;
  int gpus = 0;     // 0: the job waits
  double left = 0;  // samples that are left to train
  double stands_until = 0;
  double first_start_s = -1;
  int restarts = 0;
};

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class Replay {
 public:
  Replay(const Workload& workload, ElasticPolicy policy, const Rules& rules)
      : workload_(workload), policy_(policy), rules_(rules), jobs_(jobs_of(workload)) {
    const bool vary = policy != ElasticPolicy::kFixedBatch && !fixed_size();
    for (const Category& category : workload.categories)
      speeds_.push_back(speeds(category, workload.gpus_per_node, vary));
  }

  ElasticOutcome run() {
    const auto begin = Clock::now();
    outcome_.jobs = static_cast<int64_t>(jobs_.size());
    double decided_s = -kNever;
    bool pending = false;  // something happened since the last decision
    while (next_ < jobs_.size() || !live_.empty()) {
      const double submit_s = next_ < jobs_.size() ? jobs_[next_].submit_s : kNever;
      const double decide_s = pending ? std::max(now_s_, decided_s + rules_.decide_s) : kNever;
      const double at_s = std::min({submit_s, end_of_next(), decide_s});
      if (at_s >= kNever) break;
      advance(at_s);
      pending = end_those_done() || pending;
      while (next_ < jobs_.size() && jobs_[next_].submit_s <= now_s_) {
        live_.push_back({static_cast<int>(next_), 0, jobs_[next_].samples, 0, -1, 0});
        ++next_;
        pending = true;
      }
      if (!pending || now_s_ < decided_s + rules_.decide_s) continue;
      decide();
      decided_s = now_s_;
      pending = false;
    }
    finish();
    outcome_.wall_s = ms_since(begin) / 1e3;
    return outcome_;
  }

 private:
  const std::vector<Speed>& speeds_of(const Live& live) const { return speeds_[jobs_[live.job].category]; }

  double end_of(const Live& live) const {
    if (live.gpus == 0) return kNever;
    return std::max(now_s_, live.stands_until) + live.left / speeds_of(live)[live.gpus].samples_s;
  }

  double end_of_next() const {
    double first = kNever;
    for (const Live& live : live_) first = std::min(first, end_of(live));
    return first;
  }

  void advance(double to_s) {
    for (Live& live : live_) {
      if (live.gpus == 0) continue;
      const double from_s = std::max(now_s_, live.stands_until);
      if (to_s > from_s) live.left -= (to_s - from_s) * speeds_of(live)[live.gpus].samples_s;
      used_s_ +=
          live.gpus * std::max(0.0, std::min(to_s, workload_.hours * 3600) - std::min(now_s_, workload_.hours * 3600));
    }
    now_s_ = to_s;
  }

  bool end_those_done() {
    const auto done = [&](const Live& live) {
      if (live.gpus == 0 || live.left > kDone * speeds_of(live)[live.gpus].samples_s) return false;
      jcts_.push_back(now_s_ - jobs_[live.job].submit_s);
      if (now_s_ <= workload_.hours * 3600) ++outcome_.completed;
      return true;
    };
    const auto end = std::remove_if(live_.begin(), live_.end(), done);
    const bool any = end != live_.end();
    live_.erase(end, live_.end());
    return any;
  }

  void decide() {
    const auto begin = Clock::now();
    const std::vector<int> gpus = fixed_size() ? by_asked_sizes() : by_optimiser();
    const double took_ms = ms_since(begin);
    ++decisions_;
    solver_ms_ += took_ms;
    outcome_.solver_max_ms = std::max(outcome_.solver_max_ms, took_ms);
    for (size_t i = 0; i < gpus.size(); ++i) set_size(gpus[i], &live_[i]);
    if (!rules_.drop) return;
    const auto waits = [](const Live& live) { return live.gpus == 0; };
    const auto end = std::remove_if(live_.begin(), live_.end(), waits);
    outcome_.dropped += live_.end() - end;
    live_.erase(end, live_.end());
  }

  void set_size(int gpus, Live* live) {
    if (gpus == live->gpus) return;
    if (live->gpus > 0) {
      ++live->restarts;
      ++outcome_.resizes;
      live->stands_until = now_s_ + rules_.restart_s;
    } else {
      live->first_start_s = now_s_;
      waits_.push_back(now_s_ - jobs_[live->job].submit_s);
    }
    live->gpus = gpus;
  }

  std::vector<int> by_asked_sizes() const {
    std::vector<int> gpus(live_.size());
    int free = workload_.gpus;
    for (size_t i = 0; i < live_.size(); ++i) {
      gpus[i] = live_[i].gpus;
      free -= gpus[i];
    }
    for (size_t i = 0; i < live_.size(); ++i) {
      if (gpus[i] > 0) continue;
      const int asked = jobs_[live_[i].job].asked;
      if (asked <= free) {
        gpus[i] = asked;
        free -= asked;
      } else if (policy_ == ElasticPolicy::kFifo && !rules_.drop) {
        break;
      }
    }
    return gpus;
  }

  bool fixed_size() const { return policy_ == ElasticPolicy::kFifo || policy_ == ElasticPolicy::kFixed; }

  // Seconds on the fewest GPUs that it can use, mostly one.
  double left_s(const Live& live) const {
    for (const Speed& speed : speeds_of(live))
      if (speed.samples_s > 0) return live.left / speed.samples_s;
    return 0;
  }

  // The jobs that a decision considers: all that run, and as many waiting ones as could start with a GPU each. Of these
  // it takes the first, or with kKnown those with the least work left.
  std::vector<int> looked_at() const {
    std::vector<int> all, waiting;
    for (size_t i = 0; i < live_.size(); ++i) (live_[i].gpus > 0 ? all : waiting).push_back(static_cast<int>(i));
    if (policy_ == ElasticPolicy::kKnown)
      std::stable_sort(waiting.begin(), waiting.end(),
                       [&](int a, int b) { return left_s(live_[a]) < left_s(live_[b]); });
    waiting.resize(std::min(waiting.size(), static_cast<size_t>(workload_.gpus)));
    all.insert(all.end(), waiting.begin(), waiting.end());
    return all;
  }

  elastic::Job job_of(const Live& live) const {
    elastic::Job job;
    const auto& speed = speeds_of(live);
    const int most = std::min(static_cast<int>(speed.size()) - 1, workload_.gpus);
    for (int g = 1; g <= most; ++g)
      if (speed[g].samples_s > 0) job.points.push_back({0, g, 0, speed[g].batch, speed[g].samples_s});
    if (policy_ == ElasticPolicy::kPollux) pollux(&job);
    if (live.gpus > 0) {
      job.now = 0;
      while (job.points[job.now].gpus != live.gpus) ++job.now;
      job.age_s = now_s_ - live.first_start_s;
      job.restart_s = rules_.restart_s;
      job.restarts = live.restarts;
    }
    if (policy_ == ElasticPolicy::kKnown) job.left_s = left_s(live);
    job.waited_s = (live.gpus > 0 ? live.first_start_s : now_s_) - jobs_[live.job].submit_s;
    return job;
  }

  // Its fitness is the harmonic mean of speed / speed with an equal share of the GPUs. The reciprocal of that mean is
  // a sum, which is the least where the sum of share x (2 - 1 / speed-up) is the greatest.
  void pollux(elastic::Job* job) const {
    const double one = job->points.front().speed;
    const int share = workload_.gpus / static_cast<int>(std::max<size_t>(1, live_.size()));
    for (const elastic::Point& point : job->points)
      if (point.gpus <= std::max(share, job->points.front().gpus)) job->weight = point.speed / one;
    for (elastic::Point& point : job->points) point.speed = 2 - one / point.speed;
  }

  std::vector<int> by_optimiser() const {
    elastic::Problem problem;
    problem.least_gain = rules_.least_gain;
    if (policy_ == ElasticPolicy::kCompletion || policy_ == ElasticPolicy::kKnown)
      problem.objective = elastic::Objective::kCompletion;
    problem.shares.push_back({elastic::kNothing, {workload_.gpus}});
    const std::vector<int> jobs = looked_at();
    for (const int i : jobs) problem.jobs.push_back(job_of(live_[i]));
    const elastic::Allocation answer = elastic::optimise(problem);
    std::vector<int> gpus(live_.size());
    for (size_t at = 0; at < jobs.size(); ++at)
      if (answer.points[at] != elastic::kNothing) gpus[jobs[at]] = problem.jobs[at].points[answer.points[at]].gpus;
    return gpus;
  }

  void finish() {
    const Times jct = times_of(jcts_);
    const Times wait = times_of(waits_);
    outcome_.mean_jct_s = jct.mean;
    outcome_.p99_jct_s = jct.p99;
    outcome_.mean_wait_s = wait.mean;
    outcome_.resizes /= std::max<double>(1, static_cast<double>(outcome_.jobs));
    outcome_.utilisation = used_s_ / (workload_.gpus * workload_.hours * 3600);
    outcome_.solver_mean_ms = decisions_ > 0 ? solver_ms_ / static_cast<double>(decisions_) : 0;
  }

  const Workload& workload_;
  const ElasticPolicy policy_;
  const Rules& rules_;
  const std::vector<ElasticJob> jobs_;
  std::vector<std::vector<Speed>> speeds_;
  std::vector<Live> live_;  // in the order of submission
  size_t next_ = 0;
  double now_s_ = 0, used_s_ = 0, solver_ms_ = 0;
  int64_t decisions_ = 0;
  std::vector<double> jcts_, waits_;
  ElasticOutcome outcome_;
};

}  // namespace

const std::vector<ElasticPolicyRow>& elastic_policies() {
  static const std::vector<ElasticPolicyRow> kRows = {
      {ElasticPolicy::kKnown, "completion-known",
       "GPUs and batch chosen for jobs completed per second; work left is known"},
      {ElasticPolicy::kCompletion, "completion", "the same; nothing is known of the work left"},
      {ElasticPolicy::kElastic, "elastic", "GPUs and batch of every job chosen together, for the sum of speed-ups"},
      {ElasticPolicy::kPollux, "pollux", "GPUs and batch chosen by the fitness of Pollux"},
      {ElasticPolicy::kFixedBatch, "elastic-fixed-batch", "GPUs of every job chosen, at its user's batch"},
      {ElasticPolicy::kFixed, "fixed", "what users ask for; smaller jobs may pass"},
      {ElasticPolicy::kFifo, "fifo", "what users ask for, strictly in order"},
  };
  return kRows;
}

ElasticOutcome replay(const Workload& workload, ElasticPolicy policy, const Rules& rules) {
  ElasticOutcome outcome = Replay(workload, policy, rules).run();
  for (const ElasticPolicyRow& row : elastic_policies())
    if (row.policy == policy) outcome.policy = row.name;
  return outcome;
}

}  // namespace dl::sim
