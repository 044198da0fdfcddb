// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/report/confidence.h"

#include <algorithm>
#include <cmath>

#include "slurm-plugin/sim/world/dice.h"

namespace dl::sim {
namespace {

constexpr int kDraws = 2000;
constexpr double kDay = 86400;
constexpr double kFewestPieces = 20;
constexpr double kMostPieces = 200;
constexpr size_t kEnough = 8;  // pieces that have jobs; from fewer no interval can be computed

struct Sums {
  double wait = 0, started = 0, long_waits = 0, jobs = 0, jct = 0, ended = 0;

  void operator+=(const Sums& other) {
    wait += other.wait;
    started += other.started;
    long_waits += other.long_waits;
    jobs += other.jobs;
    jct += other.jct;
    ended += other.ended;
  }
  static double part(double sum, double of) { return of > 0 ? sum / of : 0; }
  double mean_wait() const { return part(wait, started); }
  double mean_jct() const { return part(jct, ended); }
  double part_long() const { return part(long_waits, jobs); }
};

// The number of pieces: one for each day, within bounds.
size_t piece_count(double span_s) {
  return static_cast<size_t>(std::clamp(std::ceil(span_s / kDay), kFewestPieces, kMostPieces));
}

std::vector<Sums> sums_of(const Trace& trace, const std::vector<const Outcome*>& outcomes, size_t pieces) {
  const auto begin = static_cast<double>(trace.jobs.front().submit_s);
  const double span = std::max(1.0, static_cast<double>(trace.last_submit_s()) - begin);
  std::vector<Sums> sums(pieces);
  for (size_t i = 0; i < trace.jobs.size(); ++i) {
    const double at = (static_cast<double>(trace.jobs[i].submit_s) - begin) / span;
    Sums& sum = sums[std::min(pieces - 1, static_cast<size_t>(at * static_cast<double>(pieces)))];
    for (const Outcome* outcome : outcomes) {
      const double wait = outcome->waits[i];
      sum.jobs += 1;
      if (wait < 0 || wait > kLongWaitS) sum.long_waits += 1;
      if (wait >= 0) {
        sum.wait += wait;
        sum.started += 1;
      }
      if (outcome->jcts[i] >= 0) {
        sum.jct += outcome->jcts[i];
        sum.ended += 1;
      }
    }
  }
  return sums;
}

// The interval: the mean of the sample, and the ends of the middle part of the drawn means.
Interval between(double mean, std::vector<double> drawn, double level) {
  std::sort(drawn.begin(), drawn.end());
  const auto at = [&](double part) {
    const double place = part * static_cast<double>(drawn.size() - 1);
    return drawn[static_cast<size_t>(std::lround(place))];
  };
  return Interval{mean, at((1 - level) / 2), at((1 + level) / 2)};
}

}  // namespace

std::vector<Confidence> confidence_of(const Trace& trace, const std::vector<std::vector<const Outcome*>>& policies,
                                      double level) {
  std::vector<Confidence> all(policies.size());
  if (trace.jobs.empty() || policies.empty()) return all;
  const size_t pieces = piece_count(static_cast<double>(trace.last_submit_s() - trace.jobs.front().submit_s));
  std::vector<std::vector<Sums>> sums;
  std::vector<Sums> found;
  for (const auto& outcomes : policies) {
    sums.push_back(sums_of(trace, outcomes, pieces));
    found.emplace_back();
    for (const Sums& piece : sums.back()) found.back() += piece;
  }
  const auto with_jobs =
      std::count_if(sums[0].begin(), sums[0].end(), [](const Sums& piece) { return piece.jobs > 0; });
  struct Drawn {
    std::vector<double> wait, jct, long_waits, less;
  };
  std::vector<Drawn> drawn(policies.size());
  Dice dice(1);
  std::vector<size_t> chosen(pieces);
  for (int draw = 0; draw < kDraws; ++draw) {
    for (size_t& piece : chosen) piece = static_cast<size_t>(dice.from(0, static_cast<int64_t>(pieces) - 1));
    double first = 0;
    for (size_t p = 0; p < policies.size(); ++p) {
      Sums sum;
      for (const size_t piece : chosen) sum += sums[p][piece];
      if (p == 0) first = sum.mean_wait();
      drawn[p].wait.push_back(sum.mean_wait());
      drawn[p].jct.push_back(sum.mean_jct());
      drawn[p].long_waits.push_back(sum.part_long());
      drawn[p].less.push_back(sum.mean_wait() - first);
    }
  }
  for (size_t p = 0; p < policies.size(); ++p) {
    all[p].known = static_cast<size_t>(with_jobs) >= kEnough;
    all[p].wait_s = between(found[p].mean_wait(), std::move(drawn[p].wait), level);
    all[p].jct_s = between(found[p].mean_jct(), std::move(drawn[p].jct), level);
    all[p].long_waits = between(found[p].part_long(), std::move(drawn[p].long_waits), level);
    all[p].wait_less_first = between(found[p].mean_wait() - found[0].mean_wait(), std::move(drawn[p].less), level);
  }
  return all;
}

Interval interval_of_means(const std::vector<double>& values, double level) {
  if (values.empty()) return {};
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  Dice dice(1);
  std::vector<double> drawn;
  for (int draw = 0; draw < kDraws; ++draw) {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i)
      sum += values[static_cast<size_t>(dice.from(0, static_cast<int64_t>(values.size()) - 1))];
    drawn.push_back(sum / static_cast<double>(values.size()));
  }
  return between(mean, std::move(drawn), level);
}

}  // namespace dl::sim
