// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/metrics_job.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "common/base/parse.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/log_files.h"
#include "launcher/metrics/found.h"
#include "launcher/record/open_below.h"

namespace dl::ctl {
namespace {

constexpr size_t kMostFile = 64 << 20;  // dl-metrics keeps it below 16 MiB, and one frame
// Of all files of a job together, each counted as kLeastFile bytes at least: what root reads of a user is bounded.
constexpr size_t kMostInAll = size_t{1} << 30;
constexpr size_t kLeastFile = 4 << 10;

bool matches(const std::string& pattern, const std::string& text) {
  return pattern.empty() || pattern == text || ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

// The usual groups first, in the order of a training.
int place_of(const std::string& group) {
  for (const auto& [name, place] : {std::pair{metrics::kTrain, 0}, {metrics::kValidate, 1}, {metrics::kTest, 2}})
    if (group == name) return place;
  return group == metrics::kLauncher ? 4 : group == metrics::kUse ? 5 : 3;
}

using Key = std::tuple<int, std::string, std::string, int>;  // place of the group, group, name, rank

struct Collected {
  std::map<Key, std::vector<metrics::Piece>> pieces;
  std::map<int, MetricsAttempt> attempts;
  JobMetrics job;
  size_t bytes = 0;
  bool left_out = false;  // there were further files

  // rank: none for what all learners use, which counts as of rank 0.
  void add(const Job& of, int attempt, std::optional<int> of_rank, const MetricsChoice& choice) {
    left_out = bytes > kMostInAll;
    if (left_out) return;
    const int rank = of_rank.value_or(0);
    const std::string path = of_rank ? learner_series(attempt, rank) : use_series(attempt);
    auto text = record::read_below(of.dir.root(), path, kMostFile);
    bytes += std::max(text ? text->size() : 0, kLeastFile);
    auto file = text ? metrics::parse_series(*text) : Result<metrics::SeriesFile>(std::move(text).error());
    if (!file) {
      if (file.error().code != Errc::kNotFound) job.notes.push_back(path + ": " + file.error().text);
      return;
    }
    MetricsAttempt& its = attempts[attempt];
    its.attempt = attempt;
    if (file->begin) its.step = std::min(its.step.value_or(file->begin->step), file->begin->step);
    for (const std::string& note : of_rank ? file->notes : std::vector<std::string>())
      job.notes.push_back("learner " + std::to_string(rank) + " in attempt " + std::to_string(attempt) + ": " + note);
    for (metrics::Series& series : file->series) {
      if (!wants(choice, {rank, series.group, series.name, {}})) continue;
      pieces[{place_of(series.group), series.group, series.name, rank}].push_back({attempt, std::move(series.points)});
    }
  }
};

}  // namespace

bool wants(const MetricsChoice& choice, const JobCurve& curve) {
  return matches(choice.name, curve.name) && matches(choice.group, curve.group) &&
         (!choice.rank || *choice.rank == curve.rank);
}

Result<JobMetrics> read_metrics(const Job& job, const MetricsChoice& choice) {
  Collected all;
  all.job.job = job.name();
  // The newest attempts first: if there is too much, the oldest are left out.
  const std::vector<int> numbers = list_metrics_attempts(job.dir);
  for (auto attempt = numbers.rbegin(); attempt != numbers.rend() && !all.left_out; ++attempt) {
    for (const int rank : list_learner_series(job.dir, *attempt)) all.add(job, *attempt, rank, choice);
    all.add(job, *attempt, std::nullopt, choice);
  }
  if (all.left_out)
    all.job.notes.insert(all.job.notes.begin(),
                         "older attempts are left out, because the files of the job are more than 1 GiB together");
  std::vector<metrics::Saved> saved;
  std::string ended;  // how the attempts so far did
  for (const record::Event& event : view_job(job, false).history) {
    if (event.step) saved.push_back({*event.step, event.time_ms});
    const auto attempt = all.attempts.find(event.attempt);
    if (attempt != all.attempts.end() && attempt->second.time_ms == 0) {
      attempt->second.time_ms = event.time_ms;
      attempt->second.why = ended;
    }
    if (!event.reason.empty()) ended = event.reason;
  }
  std::vector<metrics::AttemptStart> starts;
  for (const auto& [number, attempt] : all.attempts) {
    starts.push_back({number, attempt.step, attempt.time_ms});
    all.job.attempts.push_back(attempt);
  }
  for (auto& [key, pieces] : all.pieces) {
    JobCurve curve{std::get<3>(key), std::get<1>(key), std::get<2>(key), metrics::curve_of(pieces, starts, saved)};
    // What the launcher measures of an attempt is no property of a train step: nothing supersedes it.
    for (metrics::CurvePoint& point : curve.points)
      if (curve.group == metrics::kLauncher || curve.group == metrics::kUse) point.superseded = false;
    all.job.curves.push_back(std::move(curve));
  }
  return std::move(all.job);
}

}  // namespace dl::ctl
