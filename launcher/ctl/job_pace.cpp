// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/job_pace.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/contract/request_values.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/log_files.h"
#include "launcher/ctl/text.h"
#include "launcher/record/open_below.h"

namespace dl::ctl {
namespace {

constexpr size_t kMostSeriesFile = 64 << 20;

// When the learners of the newest attempt began to train.
int64_t training_since(const JobView& view) {
  int64_t since = 0;
  for (const record::Event& event : view.history)
    if (event.attempt == view.attempt && event.state == record::JobState::kProcessing) since = event.time_ms;
  return since;
}

std::string rate_number(double rate) {
  return rate < 10 ? fmt::format("{:.2g}", rate) : fmt::format("{:.0f}", rate);
}

}  // namespace

JobPace read_pace(const JobView& view, int64_t now_ms) {
  if (!view.job.has_dir()) return pace_of_job(view, {}, now_ms);
  const std::vector<int> attempts = list_metrics_attempts(view.job.dir);
  if (attempts.empty()) return pace_of_job(view, {}, now_ms);
  const auto series = [&](const std::string& path) -> metrics::SeriesFile {
    const auto text = record::read_below(view.job.dir.root(), path, kMostSeriesFile);
    if (!text) return {};
    auto file = metrics::parse_series(*text);
    return file ? *std::move(file) : metrics::SeriesFile();
  };
  const std::vector<int> ranks = list_learner_series(view.job.dir, attempts.back());
  metrics::Pace pace;
  if (!ranks.empty()) pace = metrics::pace_of(series(learner_series(attempts.back(), ranks.front())));
  JobPace job = pace_of_job(view, std::move(pace), now_ms);
  if (job.active) job.use = metrics::use_now(series(use_series(attempts.back())), now_ms);
  return job;
}

JobPace pace_of_job(const JobView& view, metrics::Pace pace, int64_t now_ms) {
  JobPace job;
  job.pace = std::move(pace);
  job.active = view.shown.state == record::JobState::kProcessing && !view.shown.unknown;
  // Of a job that waits or is paused only what is saved counts: it goes on from there.
  const bool ended = view.shown.state == record::JobState::kCompleted || view.shown.state == record::JobState::kFailed;
  job.step = std::max(view.step, job.active || ended ? job.pace.step : view.step);
  job.current = job.active && metrics::is_fresh(job.pace, now_ms);
  // What is left of a training that stands still cannot be told; of one that waits, it can.
  if ((job.current || !job.active) && !record::is_final(view.shown.state)) job.left_ms = left_ms(job.pace, job.step);
  if (view.shown.state == record::JobState::kHalted) job.left_ms = left_ms(job.pace, job.step);
  if (job.current && job.left_ms) job.end_ms = now_ms + *job.left_ms;
  const bool runs = view.job.slurm && view.job.slurm->state == "RUNNING";
  if (runs && view.job.slurm->end_time) job.limit_ms = *view.job.slurm->end_time * 1000;
  if (job.active && !view.plan.checkpoint.empty()) {
    const auto spec = parse_checkpoint(view.plan.checkpoint);
    if (spec)
      job.next_save_ms = next_save_ms(job.pace, spec->every ? spec->every->count() * 1000 : 0,
                                      spec->every_steps.value_or(0), job.step, training_since(view), now_ms);
  }
  return job;
}

std::string rate_words(const JobPace& pace) {
  if (!pace.current) return "";
  std::string words = rate_number(*pace.pace.steps_per_s) + " train steps a second";
  if (pace.pace.samples_per_s) words += ", " + rate_number(*pace.pace.samples_per_s) + " samples a second";
  return words;
}

std::string left_words(const JobPace& pace) {
  if (pace.pace.total <= 0 || pace.step < 0) return "";
  std::string words =
      fmt::format("{} of {} train steps", std::max<int64_t>(0, pace.pace.total - pace.step), pace.pace.total);
  return pace.left_ms ? words + ", " + age_text(*pace.left_ms) : words;
}

std::string end_words(const JobPace& pace, int64_t now_ms) {
  if (!pace.end_ms) return "";
  std::string words = "about " + clock_text(*pace.end_ms, now_ms);
  if (pace.limit_ms && *pace.limit_ms < *pace.end_ms)
    words += ", but its time limit ends at " + clock_text(*pace.limit_ms, now_ms);
  return words;
}

void add_pace(const JobPace& pace, Json* json) {
  const auto number = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  (*json)["steps_per_s"] = pace.current ? number(pace.pace.steps_per_s) : Json(nullptr);
  (*json)["samples_per_s"] = pace.current ? number(pace.pace.samples_per_s) : Json(nullptr);
  (*json)["total_steps"] = pace.pace.total > 0 ? Json(pace.pace.total) : Json(nullptr);
  (*json)["left_ms"] = number(pace.left_ms);
  (*json)["expected_end_ms"] = number(pace.end_ms);
  (*json)["next_save_ms"] = pace.next_save_ms > 0 ? Json(pace.next_save_ms) : Json(nullptr);
}

}  // namespace dl::ctl
