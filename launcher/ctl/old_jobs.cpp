// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/old_jobs.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/text.h"
#include "launcher/record/job_runs.h"

namespace dl::ctl {
namespace {

namespace fs = std::filesystem;

const std::string kPrefix = "dl-";
constexpr const char* kCannotAsk = "squeue is not installed here, so nobody knows whether its job has ended";

bool is_real_folder(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}
// A folder of this user's. Folders of other users are left alone: they could change them while root reads or removes.
bool is_own_folder(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}
// A folder in which job directories are looked for. If root looks, nobody else may be able to put links into it.
bool is_own_place(const std::string& path) {
  struct stat status = {};
  return is_own_folder(path) && ::lstat(path.c_str(), &status) == 0 &&
         (::geteuid() != 0 || (status.st_mode & 0022) == 0);
}
bool is_real_file(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// The user's own folders in `folder` whose names begin with `begin`.
std::vector<std::string> folders_called(const std::string& folder, const std::string& begin) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.rfind(begin, 0) == 0 && is_own_folder(it->path().string()))
      found.push_back(fs::absolute(it->path()).lexically_normal().string());
  }
  return found;
}

bool is_called_dl(const std::string& path) {
  return fs::path(path).filename().string().rfind(kPrefix, 0) == 0;
}

Job job_in(const std::string& path) {
  if (!is_called_dl(path)) {
    Job job;
    job.local = true;
    job.dir = record::JobDir(path);
    return job;
  }
  Job job;
  const record::RunName run = record::split_run_dir(path);
  const bool of_slurm = is_slurm_id(fs::path(run.first).filename().string().substr(kPrefix.size()));
  job.id = fs::path(of_slurm ? run.first : path).filename().string().substr(kPrefix.size());
  job.local = job.id.rfind("local-", 0) == 0;
  job.dir = record::JobDir(path);
  if (of_slurm && run.number > 1) job.run = run.number;
  return job;
}

bool of_slurm(const JobView& view) {
  const std::string& planned = view.plan.job_id;
  return planned.empty() ? !view.job.local : planned.rfind("local-", 0) != 0;
}

// Whether its record says that the job has ended, and does not wait to go on.
bool has_recorded_end(const JobView& view) {
  return !view.history.empty() && record::is_final(view.history.back().state) &&
         view.history.back().state != record::JobState::kHalted;
}

// What Slurm says of the job, if that may differ from the record (shown_state.h): the job has no end there, or it
// failed and Slurm still has it, so that it may have been put back and cancelled.
JobView as_slurm_knows_it(JobView view, const QueuedJobs& slurms) {
  if (!of_slurm(view) || view.alive || view.history.empty()) return view;
  const bool failed = view.history.back().state == record::JobState::kFailed;
  if (has_recorded_end(view) && !(failed && slurms.known.count(view.job.id) > 0)) return view;
  const Result<Job> found = find_job(view.job.dir.root(), "");
  return found && (found->slurm || found->forgotten) ? view_job(*found, found->forgotten) : view;
}

// `queued`: no value if Slurm cannot be asked.
OldJob judge(JobView view, const std::optional<QueuedJobs>& queued) {
  OldJob old;
  old.view = std::move(view);
  for (const record::Event& event : old.view.history) {
    if (old.began_ms == 0) old.began_ms = event.time_ms;
    old.ended_ms = event.time_ms;
  }
  old.unsure = why_unsure(old.view, queued ? std::optional(our_cluster()) : std::nullopt);
  if (queued) old.still = still_queued(old.view.job.dir.root(), old.view.plan.job_id, *queued);
  if (!old.still.empty()) return old;
  if (old.view.alive)
    old.still = "its dlrun runs";
  else if (old.view.shown.state == record::JobState::kHalted && !old.view.job.forgotten)
    old.still = "it is paused";
  else if (!has_recorded_end(old.view))
    old.still = old.unsure;
  old.ended = old.still.empty();
  return old;
}

}  // namespace

std::string why_unsure(const JobView& view, const std::optional<std::string>& cluster) {
  if (!of_slurm(view)) return {};
  if (!cluster) return kCannotAsk;
  if (is_of_other_cluster(view.plan, *cluster))
    return "it is a job of the cluster " + printable(view.plan.cluster, 40) + ", whose Slurm is not asked here";
  const bool answered = view.job.slurm || !view.job.accounted_state.empty();
  if (view.plan.cluster.empty() && !answered && !has_recorded_end(view))
    return "its plan.json does not say of which cluster it is, and it may wait there";
  return {};
}

QueuedJobs queued_jobs(const std::vector<slurm_cli::JobInfo>& jobs) {
  QueuedJobs queued;
  for (const slurm_cli::JobInfo& info : jobs) {
    // "15+0" is the first part of a heterogeneous job.
    const std::string id = info.job_id.substr(0, info.job_id.find('+'));
    queued.known.insert(id);
    if (has_ended(info.state)) continue;
    queued.state_of_id[id] = info.state;
    if (const auto comment = record::parse_comment(info.comment)) queued.state_of_dir[comment->dir] = info.state;
  }
  return queued;
}

std::string still_queued(const std::string& dir, const std::string& planned_id, const QueuedJobs& queued) {
  const record::RunName run = record::split_run_dir(dir);
  for (const std::string& named : {dir, run.first})
    if (const auto of_dir = queued.state_of_dir.find(named); of_dir != queued.state_of_dir.end())
      return "Slurm has it: " + of_dir->second;
  std::string name = fs::path(run.first).filename().string();
  name.erase(0, name.rfind(kPrefix, 0) == 0 ? kPrefix.size() : 0);
  for (const std::string& id : {name, planned_id}) {
    if (!is_slurm_id(id)) continue;
    if (const auto of_id = queued.state_of_id.find(id); of_id != queued.state_of_id.end())
      return "Slurm has a job of this number: " + of_id->second;
    // "12_[3-7]" also stands for element 5, so any waiting record of the array counts.
    const std::string array = slurm_cli::array_of(id);
    const bool waits = std::any_of(queued.state_of_id.begin(), queued.state_of_id.end(),
                                   [&](const auto& item) { return item.first.rfind(array + "_[", 0) == 0; });
    if (!array.empty() && waits) return "elements of its array wait";
  }
  return {};
}

Result<std::vector<OldJob>> find_old_jobs(const std::vector<std::string>& folders) {
  DL_TRY(act_as_owner_of(folders));
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    if (!is_real_folder(folder)) return Error{Errc::kNotFound, "'" + printable(folder, 300) + "' is not a folder"};
    std::vector<std::string> places = {folder};
    if (const std::string calls = folder + "/dl-calls"; is_own_place(calls))
      for (const std::string& call : folders_called(calls, ""))
        if (is_own_place(call)) places.push_back(call);
    for (const std::string& place : places)
      for (const std::string& path : folders_called(place, ""))
        if (is_real_file(path + "/events.jsonl") && (is_called_dl(path) || is_real_file(path + "/plan.json")))
          paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  std::vector<JobView> views;
  views.reserve(paths.size());
  for (const std::string& path : paths) {
    JobView view = view_job(job_in(path), true);
    // A folder with another name than dl-* is a job directory only if the plan in it says so.
    if (name_by_plan(view.plan, &view.job) || is_called_dl(path)) views.push_back(std::move(view));
  }
  std::optional<QueuedJobs> queued;
  // Slurm is not asked if all runs were without Slurm.
  if (std::any_of(views.begin(), views.end(), of_slurm) && !find_program("squeue").empty()) {
    DL_TRY_ASSIGN(const std::vector<slurm_cli::JobInfo> jobs, slurm_cli::list_jobs("", slurm_cli::Which::kEnded));
    queued = queued_jobs(jobs);
    for (JobView& view : views) view = as_slurm_knows_it(std::move(view), *queued);
  }
  std::vector<OldJob> jobs;
  jobs.reserve(views.size());
  for (JobView& view : views) jobs.push_back(judge(std::move(view), queued));
  std::stable_sort(jobs.begin(), jobs.end(), [](const OldJob& a, const OldJob& b) { return a.ended_ms < b.ended_ms; });
  return jobs;
}

std::string reason_to_keep(const OldJob& job, const TreeFacts& tree, const CleanRules& rules, int64_t now_ms) {
  if (!job.ended) return job.still;
  if (!job.unsure.empty()) return job.unsure;
  if (tree.foreign) return "it holds files of other users";
  if (tree.checkpoint) return "it holds checkpoints";
  if (!rules.results && !tree.results.empty()) return "results/ holds " + printable(tree.results, 40);
  const int64_t newest_ms = std::max(job.ended_ms, tree.newest_s * 1000);
  if (now_ms - newest_ms < rules.older_than_s * 1000)
    return fmt::format("it ended {} ago, and --older-than is {}", age_text(now_ms - newest_ms),
                       format_duration(std::chrono::seconds(rules.older_than_s)));
  return {};
}

}  // namespace dl::ctl
