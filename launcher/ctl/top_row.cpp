// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/top_row.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>

#include "common/base/parse.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/log_files.h"
#include "launcher/ctl/metrics_plot.h"
#include "launcher/plot/thin.h"

namespace dl::ctl {
namespace {

constexpr size_t kShownTopEvents = 100, kShownLogLines = 15, kTailBytes = 32 << 10;
constexpr int kChartColumns = 400;  // of a picture; no terminal has more dots
constexpr size_t kMostSamples = 4000;
constexpr size_t kLogLineBytes = 2000;

std::optional<int64_t> if_known(int64_t value, int64_t unknown) {
  return value == unknown ? std::nullopt : std::optional(value);
}

// Leaves so few samples of each curve as a terminal can show. Between two parts that are not joined stands a NaN.
void thin(plot::Chart* chart) {
  for (plot::Curve& curve : chart->curves) {
    plot::Range range{HUGE_VAL, -HUGE_VAL};
    for (const plot::Sample& sample : curve.samples) {
      if (!std::isfinite(sample.x)) continue;
      range.low = std::min(range.low, sample.x);
      range.high = std::max(range.high, sample.x);
    }
    if (!(range.low < range.high)) continue;
    std::vector<plot::Sample> few;
    for (const std::vector<plot::Sample>& run : plot::thinned(curve.samples, range, kChartColumns, kMostSamples)) {
      if (!few.empty()) few.push_back({run.front().x, std::numeric_limits<double>::quiet_NaN()});
      few.insert(few.end(), run.begin(), run.end());
    }
    curve.samples = std::move(few);
  }
}

void read_chart(const Job& job, top::Detail* detail) {
  auto metrics = read_metrics(job, {});
  if (!metrics) {
    detail->no_chart = metrics.error().text;
    return;
  }
  std::vector<plot::Chart> charts = metrics_charts({*std::move(metrics)}, false);
  if (charts.empty()) {
    detail->no_chart = "no values yet: dlctl metrics tells which are found";
    return;
  }
  thin(&charts.front());
  detail->chart = std::move(charts.front());
}

void read_log(const Job& job, top::Detail* detail) {
  const std::vector<int> attempts = list_attempts(job.dir);
  if (attempts.empty()) return;
  const std::vector<int> ranks = list_learner_logs(job.dir, attempts.back());
  if (ranks.empty()) return;
  detail->log_name = fmt::format("learner {}, attempt {}", ranks.front(), attempts.back());
  auto tail = last_lines(job.dir, attempts.back(), ranks.front(), kShownLogLines, kTailBytes);
  if (!tail) return;
  std::vector<std::string> lines = *std::move(tail);
  for (std::string& line : lines)
    if (line.size() > kLogLineBytes) line = line.substr(line.size() - kLogLineBytes);  // the end of a progress bar
  detail->log = std::move(lines);
}

}  // namespace

std::string row_id(const Job& job) {
  // It travels as JSON, and has to come back as it was: a path may be no UTF-8.
  return job.local ? printable(job.dir.root(), 20'000) : job.name();
}

std::string pause_target(const Job& job) {
  if (job.local) return job.dir.root();
  return job.id.find('[') == std::string::npos ? job.id : slurm_cli::array_of(job.id);
}

top::Row top_row(const JobView& view, const JobPace& pace) {
  top::Row row;
  row.id = row_id(view.job);
  row.job = view.job.name();
  row.target = pause_target(view.job);
  row.user = view.user;
  row.name = view.name;
  row.state = shown_name(view.shown);
  row.reason = view.shown.reason;
  if (view.job.slurm) {
    const std::string& state = view.job.slurm->state;
    // The record tells of a pause some seconds before Slurm is asked again.
    const bool halted = view.shown.state == record::JobState::kHalted;
    row.may_resume = halted || (state == "PENDING" && view.job.slurm->held);
    row.may_pause =
        !halted && ((state == "PENDING" && !view.job.slurm->held) || state == "RUNNING" || state == "CONFIGURING");
  } else if (view.job.local) {
    row.may_pause = view.alive;
  }
  row.active = pace.active;
  row.since_ms = view.shown.since_ms;
  row.limit_ms = pace.limit_ms;
  row.attempt = view.attempt;
  row.learners = view.plan.learners;
  row.gpus =
      static_cast<int>(std::clamp<int64_t>(int64_t{view.plan.learners} * view.plan.gpus_per_learner, 0, 1'000'000'000));
  row.step = if_known(pace.step, -1);
  row.saved_step = if_known(view.saved_step, -1);
  row.total_steps = if_known(pace.pace.total, 0);
  if (pace.current) {
    row.steps_per_s = pace.pace.steps_per_s;
    row.samples_per_s = pace.pace.samples_per_s;
  }
  row.loss_name = pace.pace.loss_name;
  row.loss = pace.pace.loss;
  row.left_ms = pace.left_ms;
  row.gpu_use = pace.use.gpu_percent;
  row.cpus_used = pace.use.cpus;
  row.idle_gpus = unused_gpus(view).gpus;
  row.next_save_ms = if_known(pace.next_save_ms, 0);
  row.unread = view.job.has_dir() && ::access(view.job.dir.root().c_str(), R_OK | X_OK) != 0 && errno == EACCES;
  return row;
}

top::Detail top_detail(const Job& job) {
  top::Detail detail;
  detail.id = row_id(job);
  if (!job.has_dir()) {
    detail.no_chart = "its job directory is not known";
    return detail;
  }
  const JobView view = view_job(job, false);
  detail.dir = job.dir.root();
  detail.checkpoint = view.plan.checkpoint;
  const size_t skipped = view.history.size() - std::min(view.history.size(), kShownTopEvents);
  for (size_t i = skipped; i < view.history.size(); ++i) {
    const record::Event& event = view.history[i];
    detail.events.push_back({event.time_ms, event.attempt, record::state_name(event.state), event.reason, event.step});
  }
  read_chart(job, &detail);
  read_log(job, &detail);
  return detail;
}

}  // namespace dl::ctl
