// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/top_look.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/base/clock.h"
#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/text.h"
#include "launcher/ctl/top_row.h"

namespace dl::ctl {
namespace {

constexpr size_t kMostEnded = 100;     // jobs that have ended since top was started
constexpr size_t kMostLocal = 100;     // runs without Slurm that are found in the folder
constexpr int64_t kSilentMs = 60'000;  // a dlrun that did not answer is not asked for so long

// The runs without Slurm whose directories are in the current folder.
std::vector<std::string> local_folders() {
  std::vector<std::string> folders;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator(".", ignored)) {
    const std::string name = item.path().filename().string();
    if (name.rfind("dl-local-", 0) == 0 && item.is_directory(ignored)) folders.push_back(name);
  }
  std::sort(folders.rbegin(), folders.rend());  // the newest first
  if (folders.size() > kMostLocal) folders.resize(kMostLocal);
  return folders;
}

// With the rights of the job's user: of a job that Slurm does not list any more, its directory tells all.
bool may_read(const Job& job) {
  if (!job.has_dir()) return false;
  const FileRights rights(job);
  return ::faccessat(AT_FDCWD, job.dir.root().c_str(), R_OK | X_OK, AT_EACCESS) == 0;
}

// What is read of a job, as text: made_as_owner() may read it in another process.
struct LookPart {
  std::vector<top::Row> rows;
  std::optional<top::Detail> detail;
  bool silent = false;
};

std::string part_text(const Job& job, const std::vector<Job>& runs, bool ask, const std::string& opened) {
  Json json = Json::object();
  json["rows"] = Json::array();
  const int64_t now = now_ms();
  bool silent = false;
  for (const Job& run : runs) {
    JobView view = view_job(run, ask);
    const bool trains = view.shown.state == record::JobState::kProcessing;
    silent = silent || (ask && !job.local && trains && !view.alive);
    json["rows"].push_back(top::row_json(top_row(view, read_pace(view, now))));
    if (row_id(run) == opened) json["detail"] = top::detail_json(top_detail(run));
  }
  json["silent"] = Json(silent);
  return json.dump();
}

Result<LookPart> part_of(const std::string& text) {
  const Json json = Json::parse(text);
  LookPart part;
  if (!json.is_object() || !json.contains("rows")) return Error{Errc::kInternal, "a look at a job gave no answer"};
  for (const Json& item : json.at("rows")) {
    DL_TRY_ASSIGN(top::Row row, top::row_of(item));
    part.rows.push_back(std::move(row));
  }
  if (const Json* detail = json.find("detail")) {
    DL_TRY_ASSIGN(part.detail, top::detail_of(*detail));
  }
  part.silent = json.value("silent", false);
  return part;
}

}  // namespace

Result<TopLook> TopLook::make(const TopOptions& options) {
  TopLook look;
  look.all_users_ = options.all_users;
  std::vector<std::string> folders;
  for (const std::string& name : options.jobs) {
    if (is_slurm_id(name))
      look.ids_.push_back(name);
    else
      folders.push_back(name.rfind("local-", 0) == 0 ? "dl-" + name : name);
  }
  const bool no_slurm = find_program("squeue").empty();
  if (no_slurm && options.jobs.empty()) folders = local_folders();
  if (no_slurm && folders.empty())
    return Error{Errc::kNotFound,
                 "Slurm's commands are not installed here, and no run without Slurm has its directory in this folder; "
                 "name a job directory: dlctl top dl-local-..."};
  for (const std::string& folder : folders) {
    auto job = job_of_folder(folder);
    if (!job) return std::move(job).error();
    // Without Slurm a Slurm job's directory is all that there is of it.
    if (job->local || no_slurm)
      look.local_.push_back(*std::move(job));
    else
      look.ids_.push_back(job->id);
  }
  look.ask_ = !no_slurm && (options.jobs.empty() || !look.ids_.empty());
  return look;
}

bool TopLook::wants(const std::string& id) const {
  return ids_.empty() || std::any_of(ids_.begin(), ids_.end(), [&](const std::string& named) {
           return named == id || named == slurm_cli::array_of(id);
         });
}

void TopLook::ask_slurm() {
  const int64_t now = now_ms();
  // A clock that was set back does not keep it from asking.
  if (!ask_ || (slurm_ms_ > 0 && now >= slurm_ms_ && now - slurm_ms_ < kSlurmEveryMs)) return;
  slurm_ms_ = now;
  // Jobs of others can be named, too.
  const auto listed = slurm_cli::list_jobs(all_users_ || !ids_.empty() ? "*" : "");
  if (!listed) {
    problem_ = listed.error().text;  // the jobs of the last answer stay
    return;
  }
  problem_.clear();
  std::vector<Job> jobs;
  for (const slurm_cli::JobInfo& info : *listed)
    if (wants(info.job_id)) jobs.push_back(job_of(info));
  const auto among = [](const std::vector<Job>& all, const Job& one) {
    return std::any_of(all.begin(), all.end(), [&](const Job& job) { return job.id == one.id; });
  };
  for (Job& job : jobs_) {
    // What waits of an array has another name after each of its elements has begun.
    if (among(jobs, job) || job.id.find('[') != std::string::npos || !may_read(job)) continue;
    job.accounted_user = job.slurm ? job.slurm->user : "";
    job.slurm.reset();
    job.forgotten = true;
    ended_.push_back(std::move(job));
  }
  ended_.erase(std::remove_if(ended_.begin(), ended_.end(), [&](const Job& job) { return among(jobs, job); }),
               ended_.end());
  if (ended_.size() > kMostEnded) ended_.erase(ended_.begin(), ended_.end() - static_cast<std::ptrdiff_t>(kMostEnded));
  jobs_ = std::move(jobs);
}

void TopLook::add_rows(const Job& job, bool ended, const std::string& opened, top::Snapshot* snapshot) {
  const auto silent = silent_.find(job.id);
  // Before another user's dlrun can be asked, Slurm has to say where it runs; so it is not asked while Slurm lists the
  // job. Where Slurm lists the job no more, dlrun is asked: if it does not answer, it has ended, or was killed.
  const bool ask = ended || (!is_foreign(job) && (silent == silent_.end() || silent->second <= monotonic_ms()));
  const auto text = made_as_owner(
      job, [&] { return part_text(job, ended || job.local ? std::vector<Job>{job} : runs_at_work(job), ask, opened); });
  auto part = text ? part_of(*text) : Result<LookPart>(text.error());
  if (!part) {
    // Only what Slurm says is shown.
    Job without = job;
    without.dir = record::JobDir();
    const JobView view = view_job(without, false);
    top::Row row = top_row(view, pace_of_job(view, {}, now_ms()));
    // Those of a run without Slurm are its directory.
    row.id = row_id(job);
    row.target = pause_target(job);
    row.unread = true;
    snapshot->rows.push_back(std::move(row));
    return;
  }
  if (part->silent) silent_[job.id] = monotonic_ms() + kSilentMs;
  for (top::Row& row : part->rows) snapshot->rows.push_back(std::move(row));
  if (part->detail) snapshot->detail = std::move(part->detail);
}

top::Snapshot TopLook::look(const std::string& opened) {
  ask_slurm();
  top::Snapshot snapshot;
  for (const Job& job : jobs_) add_rows(job, false, opened, &snapshot);
  for (const Job& job : local_) add_rows(job, false, opened, &snapshot);
  for (const Job& job : ended_) add_rows(job, true, opened, &snapshot);
  snapshot.time_ms = now_ms();
  snapshot.slurm_ms = slurm_ms_;
  snapshot.problem = problem_;
  return snapshot;
}

}  // namespace dl::ctl
