// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/compare/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "common/base/parse.h"

namespace dl::sim {
namespace {

constexpr double kMinute = 60;

constexpr double kUnavailable[] = {0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3};
constexpr int64_t kIntervals[] = {0, 30, 60, 120, 300};
constexpr int64_t kYields[] = {10, 30, 120, 300};
constexpr int64_t kRestarts[] = {30, 60, 300, 900};

template <size_t N, typename T>
constexpr int size_of(const T (&)[N]) {
  return static_cast<int>(N);
}

std::string seconds(int64_t value) {
  return format_duration(std::chrono::seconds(value));
}

bool within(const Trace& trace, size_t job, const Window& window) {
  const auto begin = static_cast<double>(trace.jobs.front().submit_s);
  const double span = std::max(1.0, static_cast<double>(trace.last_submit_s()) - begin);
  const double at = (static_cast<double>(trace.jobs[job].submit_s) - begin) / span;
  return at >= window.from && at < window.to;
}

template <typename Take>
WaitPairs pairs_of(const Trace& trace, const Outcome& outcome, const Window& window, Take take) {
  WaitPairs pairs;
  for (size_t i = 0; i < trace.jobs.size(); ++i) {
    const TraceJob& job = trace.jobs[i];
    if (job.waited_s < 0 || !within(trace, i, window) || !take(job)) continue;
    pairs.real.push_back(static_cast<double>(job.waited_s));
    pairs.simulated.push_back(outcome.waits[i] >= 0 ? outcome.waits[i] : outcome.makespan_s);
  }
  return pairs;
}

void add_row(const std::string& size, const std::string& name, const std::vector<double>& waits, double factor,
             std::vector<std::vector<std::string>>* rows) {
  const auto over = std::count_if(waits.begin(), waits.end(), [](double wait) { return wait > kLongWaitS; });
  const Times times = times_of(waits);
  rows->push_back({size, name, fmt::format("{}", times.count), short_time(times.mean), short_time(times.median),
                   short_time(times.p95), short_time(times.p99),
                   times.count == 0
                       ? "-"
                       : fmt::format("{:.1f}%", 100.0 * static_cast<double>(over) / static_cast<double>(times.count)),
                   factor == 0 ? "" : fmt::format("{:.2f}", factor)});
}

}  // namespace

WaitPairs wait_pairs(const Trace& trace, const Outcome& outcome, const Window& window) {
  return pairs_of(trace, outcome, window, [](const TraceJob&) { return true; });
}

WaitPairs wait_pairs(const Trace& trace, const Outcome& outcome, const Window& window, size_t size) {
  return pairs_of(trace, outcome, window,
                  [&](const TraceJob& job) { return size_class(int64_t{job.gpus} * job.max_learners) == size; });
}

double factor_between(WaitPairs pairs) {
  if (pairs.real.empty()) return 1;
  std::sort(pairs.real.begin(), pairs.real.end());
  std::sort(pairs.simulated.begin(), pairs.simulated.end());
  double sum = 0;
  for (size_t i = 0; i < pairs.real.size(); ++i)
    sum += std::abs(std::log((pairs.simulated[i] + kMinute) / (pairs.real[i] + kMinute)));
  return std::exp(sum / static_cast<double>(pairs.real.size()));
}

const std::vector<FittedField>& fitted_fields() {
  static const std::vector<FittedField> kFields = {
      {"--unavailable", false, size_of(kUnavailable), [](int v, Fitted* f) { f->unavailable = kUnavailable[v]; },
       [](const Fitted& f) { return fmt::format("{:g}", f.unavailable); }},
      {"--interval", false, size_of(kIntervals), [](int v, Fitted* f) { f->interval_s = kIntervals[v]; },
       [](const Fitted& f) { return seconds(f.interval_s); }},
      {"--yield", true, size_of(kYields), [](int v, Fitted* f) { f->yield_s = kYields[v]; },
       [](const Fitted& f) { return seconds(f.yield_s); }},
      {"--restart", true, size_of(kRestarts), [](int v, Fitted* f) { f->restart_s = kRestarts[v]; },
       [](const Fitted& f) { return f.restart_s < 0 ? std::string() : seconds(f.restart_s); }},
  };
  return kFields;
}

Result<Calibration> calibrate(const Trace& trace, const SimPolicy& policy, const Fitted& begin,
                              const ReplayWith& replay_with) {
  constexpr double kBetter = 0.999;  // a smaller improvement is no reason to change a setting
  Calibration found;
  found.best = begin;
  DL_TRY_ASSIGN(const Outcome given, replay_with(begin));
  found.replays = 1;
  found.first_before = found.first_after = factor_between(wait_pairs(trace, given, kFirstHalf));
  found.second_before = found.second_after = factor_between(wait_pairs(trace, given, kSecondHalf));
  for (int round = 0; round < 2; ++round) {
    bool better = false;
    for (const FittedField& field : fitted_fields()) {
      if (field.only_quotas && !policy.quotas) continue;
      const Fitted start = found.best;
      for (int value = 0; value < field.values; ++value) {
        Fitted tried = start;
        field.set(value, &tried);
        if (field.print(tried) == field.print(start)) continue;
        DL_TRY_ASSIGN(const Outcome outcome, replay_with(tried));
        ++found.replays;
        const double factor = factor_between(wait_pairs(trace, outcome, kFirstHalf));
        if (factor >= found.first_after * kBetter) continue;
        found.best = tried;
        found.first_after = factor;
        found.second_after = factor_between(wait_pairs(trace, outcome, kSecondHalf));
        better = true;
      }
    }
    if (!better) break;
  }
  return found;
}

std::string options_of(const Calibration& calibration, const Fitted& begin) {
  std::string text;
  for (const FittedField& field : fitted_fields()) {
    const std::string value = field.print(calibration.best);
    if (value.empty() || value == field.print(begin)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", field.option, value);
  }
  return text;
}

std::string compare_text(const Trace& trace, const std::vector<Outcome>& outcomes, bool sizes) {
  std::vector<std::vector<std::string>> rows{
      {"GPUS", "WAITS", "JOBS", "WAIT", "MEDIAN", "P95", "P99", ">15M", "FACTOR"}};
  add_row("all", "real", wait_pairs(trace, outcomes.front(), kAll).real, 0, &rows);
  for (const Outcome& outcome : outcomes) {
    const WaitPairs pairs = wait_pairs(trace, outcome, kAll);
    add_row("all", outcome.policy, pairs.simulated, factor_between(pairs), &rows);
  }
  for (size_t size = 0; sizes && size < size_count(); ++size) {
    const std::vector<double> real = wait_pairs(trace, outcomes.front(), kAll, size).real;
    if (real.empty()) continue;
    add_row(size_name(size), "real", real, 0, &rows);
    for (const Outcome& outcome : outcomes) {
      const WaitPairs pairs = wait_pairs(trace, outcome, kAll, size);
      add_row(size_name(size), outcome.policy, pairs.simulated, factor_between(pairs), &rows);
    }
  }
  return aligned(rows, 2);
}

}  // namespace dl::sim
