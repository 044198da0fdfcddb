// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/old_jobs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

namespace fs = std::filesystem;

bool is_real_folder(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}
// Those of others are none of this command's: root would read and remove in what a user can change meanwhile.
bool is_own_folder(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}
bool is_real_file(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// Folders in `folder` whose names begin so.
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

// Jobs that Slurm has, by the directory that their comment names, and by id.
struct Known {
  std::map<std::string, std::string> state_of_dir, state_of_id;
};

Result<Known> ask_slurm() {
  Known known;
  if (find_program("squeue").empty()) return known;
  DL_TRY_ASSIGN(const std::vector<slurm_cli::JobInfo> jobs, slurm_cli::list_jobs(""));
  for (const slurm_cli::JobInfo& info : jobs) {
    known.state_of_id[info.job_id] = info.state;
    if (const auto comment = record::parse_comment(info.comment)) known.state_of_dir[comment->dir] = info.state;
  }
  return known;
}

OldJob judge(const std::string& path, const Known& known) {
  OldJob old;
  Job job;
  job.id = fs::path(path).filename().string().substr(3);
  job.local = job.id.rfind("local-", 0) == 0;
  job.dir = record::JobDir(path);
  old.view = view_job(job, true);
  for (const record::Event& event : old.view.history) {
    if (old.began_ms == 0) old.began_ms = event.time_ms;
    old.ended_ms = event.time_ms;
  }
  const auto of_dir = known.state_of_dir.find(path);
  const auto of_id = known.state_of_id.find(job.id);
  // "12_[3-7]" waits for element 5, too: any record of the array counts.
  const bool of_array = std::any_of(known.state_of_id.begin(), known.state_of_id.end(), [&](const auto& item) {
    const std::string array = slurm_cli::array_of(job.id);
    return !array.empty() && item.first.rfind(array + "_[", 0) == 0;
  });
  if (of_dir != known.state_of_dir.end())
    old.still = "Slurm has it: " + of_dir->second;
  else if (of_id != known.state_of_id.end())
    old.still = "Slurm has a job of this number: " + of_id->second;
  else if (of_array)
    old.still = "elements of its array wait";
  else if (old.view.alive)
    old.still = "its dlrun runs";
  else if (old.view.shown.state == record::JobState::kHalted)
    old.still = "it is paused";
  old.ended = old.still.empty();
  return old;
}

}  // namespace

Result<std::vector<OldJob>> find_old_jobs(const std::vector<std::string>& folders) {
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    if (!is_real_folder(folder)) return Error{Errc::kNotFound, "'" + printable(folder, 300) + "' is not a folder"};
    std::vector<std::string> places = {folder};
    for (const std::string& call : folders_called(folder + "/dl-calls", "")) places.push_back(call);
    for (const std::string& place : places)
      for (const std::string& path : folders_called(place, "dl-"))
        if (is_real_file(path + "/events.jsonl")) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  // Of runs without Slurm it need not be asked.
  const bool any_of_slurm = std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
    return fs::path(path).filename().string().rfind("dl-local-", 0) != 0;
  });
  Known known;
  if (any_of_slurm) {
    DL_TRY_ASSIGN(known, ask_slurm());
  }
  std::vector<OldJob> jobs;
  jobs.reserve(paths.size());
  for (const std::string& path : paths) jobs.push_back(judge(path, known));
  std::stable_sort(jobs.begin(), jobs.end(), [](const OldJob& a, const OldJob& b) { return a.ended_ms < b.ended_ms; });
  return jobs;
}

std::string reason_to_keep(const OldJob& job, const TreeFacts& tree, const CleanRules& rules, int64_t now_ms) {
  if (!job.ended) return job.still;
  if (tree.foreign) return "not all in it is yours";
  if (tree.checkpoint) return "it holds checkpoints";
  if (!rules.results && !tree.results.empty()) return "results/ holds " + printable(tree.results, 40);
  const int64_t newest_ms = std::max(job.ended_ms, tree.newest_s * 1000);
  if (now_ms - newest_ms < rules.older_than_s * 1000) return "it ended " + age_text(now_ms - newest_ms) + " ago";
  return {};
}

}  // namespace dl::ctl
