// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/report_look.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/base/count.h"
#include "config.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/log_files.h"
#include "launcher/ctl/metrics_job.h"
#include "launcher/ctl/metrics_plot.h"
#include "launcher/metrics/found.h"
#include "launcher/record/open_below.h"

namespace dl::ctl {
namespace {

using report::ReportData;

constexpr size_t kMostReportPlan = 256UL << 20, kMostForeignReportPlan = 8UL << 20;
constexpr size_t kMostTail = 256 << 10;
constexpr size_t kMostLogsOfAttempt = 3;

void take_view(const JobView& view, int64_t now_ms, ReportData* data) {
  data->job = view.job.name();
  data->name = view.name;
  data->user = view.user.empty() ? view.job.accounted_user : view.user;
  data->state = shown_name(view.shown);
  data->why = view.shown.reason;
  data->since_ms = view.shown.since_ms.value_or(0);
  data->goes_on = view.alive || (view.job.slurm && !has_ended(view.job.slurm->state));
  data->dir = view.job.dir.root();
  data->of_slurm = !view.job.local;
  data->checkpoint = view.plan.checkpoint;
  data->attempt = view.attempt;
  data->restarts = view.restarts;
  data->step = view.step;
  data->saved_step = view.saved_step;
  data->rate = rate_words(view.pace);
  data->left = left_words(view.pace);
  data->expected_end = end_words(view.pace, now_ms);
  data->scaling = view.scaling;
  if (view.alive && view.use) data->use_now = view.use->text;
}

void read_sheet(const Job& job, ReportData* data) {
  auto text = record::read_below(job.dir.root(), job_directory::kPlan,
                                 is_foreign(job) ? kMostForeignReportPlan : kMostReportPlan);
  if (text) data->plan = report::parse_plan_sheet(*text);
  if (!text)
    data->not_known.push_back("The launch plan could not be read: " + text.error().text + ".");
  else if (!data->plan)
    data->not_known.emplace_back("The launch plan could not be read: plan.json is damaged.");
}

void read_events_of(const Job& job, ReportData* data) {
  auto history = read_history(job);
  if (!history) {
    data->not_known.push_back("The events of the job could not be read: " + history.error().text + ".");
    return;
  }
  data->events = std::move(history->events);
  if (history->skipped_lines > 0)
    data->not_known.push_back(count_text(history->skipped_lines, "line") +
                              " of events.jsonl could not be read, or would have been too much.");
}

// The ranks of the plan, with what is known of each.
void join_learners(const std::vector<LearnerView>& views, ReportData* data) {
  std::map<int, report::LearnerLine> lines;
  if (data->plan) {
    const int64_t servers_from = data->plan->ranks - data->plan->servers;
    for (size_t i = 0; i < data->plan->learners.size(); ++i) {
      report::LearnerLine& line = lines[static_cast<int>(i)];
      line.node = data->plan->learners[i].node;
      line.gpus = data->plan->learners[i].gpus;
      line.server = data->plan->servers > 0 && static_cast<int64_t>(i) >= servers_from;
    }
  }
  for (const LearnerView& view : views) {
    report::LearnerLine& line = lines[view.rank];
    if (!view.host.empty()) line.node = view.host;
    line.state = view.state;
    line.why = view.reason;
    line.step = view.step;
    line.saved_step = view.saved_step;
    line.use = view.use;
  }
  for (auto& [rank, line] : lines) {
    line.rank = rank;
    data->learners.push_back(std::move(line));
  }
}

void read_curves(const Job& job, ReportData* data) {
  auto metrics = read_metrics(job, {});
  if (!metrics) {
    data->not_known.push_back("The metrics of the job could not be read: " + metrics.error().text + ".");
    return;
  }
  for (const std::string& note : metrics->notes) data->not_known.push_back("Metrics: " + note + ".");
  JobMetrics use;
  use.job = metrics->job;
  use.attempts = metrics->attempts;
  const auto measured = std::stable_partition(
      metrics->curves.begin(), metrics->curves.end(),
      [](const JobCurve& curve) { return curve.group != metrics::kLauncher && curve.group != metrics::kUse; });
  std::move(measured, metrics->curves.end(), std::back_inserter(use.curves));
  metrics->curves.erase(measured, metrics->curves.end());
  data->curves = metrics_charts({*std::move(metrics)}, false);
  data->use_curves = metrics_charts({std::move(use)}, false);
}

void read_logs(const Job& job, ReportData* data) {
  for (const auto& [attempt, rank] : telling_logs(data->events, data->attempt)) {
    report::LastLines log{attempt, rank, {}, ""};
    auto lines = last_lines(job.dir, attempt, rank, report::kMostLogLines, kMostTail);
    if (lines) {
      for (std::string& line : *lines)
        // The end of a progress bar, which rewrites its line.
        if (line.size() > report::kMostLineBytes) line = line.substr(line.size() - report::kMostLineBytes);
      log.lines = *std::move(lines);
    } else {
      log.missing = "Its log could not be read: " + lines.error().text + ".";
    }
    data->last_lines.push_back(std::move(log));
  }
}

}  // namespace

std::vector<std::pair<int, int>> telling_logs(const std::vector<record::Event>& events, int newest_attempt) {
  std::map<int, std::vector<int>> failed;  // by attempt
  for (const record::Event& event : events) {
    if (!event.learner || event.state != record::JobState::kFailed || event.attempt <= 0) continue;
    std::vector<int>& ranks = failed[event.attempt];
    if (ranks.size() < kMostLogsOfAttempt && std::find(ranks.begin(), ranks.end(), *event.learner) == ranks.end())
      ranks.push_back(*event.learner);
  }
  std::vector<std::pair<int, int>> chosen;
  for (size_t round = 0; round < kMostLogsOfAttempt; ++round)
    for (auto attempt = failed.rbegin(); attempt != failed.rend() && chosen.size() < report::kMostLogs; ++attempt)
      if (attempt->second.size() > round) chosen.emplace_back(attempt->first, attempt->second[round]);
  std::stable_sort(chosen.begin(), chosen.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (chosen.empty() && newest_attempt > 0) chosen.emplace_back(newest_attempt, 0);
  return chosen;
}

ReportData look_for_report(const Job& job, int64_t now_ms) {
  ReportData data;
  data.now_ms = now_ms;
  data.made_by = PACKAGE_STRING;
  JobView view = view_job(job, true);
  if (job.has_dir()) view.pace = read_pace(view, now_ms);
  take_view(view, now_ms, &data);
  if (!job.local && !job.slurm)
    data.not_known.emplace_back(
        "Slurm knows nothing of the job any more, or was not asked; this page is from the job directory.");
  if (!job.has_dir()) {
    data.not_known.emplace_back("The job has no job directory (yet), so this page shows only what Slurm says.");
    return data;
  }
  read_sheet(job, &data);
  read_events_of(job, &data);
  join_learners(view.learners, &data);
  read_curves(job, &data);
  read_logs(job, &data);
  return data;
}

}  // namespace dl::ctl
