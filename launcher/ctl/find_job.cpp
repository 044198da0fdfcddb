// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/find_job.h"

#include <fmt/core.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include "common/base/clock.h"
#include "common/base/parse.h"
#include "common/contract/path_pattern.h"
#include "common/process/child_process.h"
#include "common/site/site_config.h"
#include "launcher/ctl/act_as.h"
#include "launcher/record/job_runs.h"
#include "launcher/slurm_cli/user_settings.h"

namespace dl::ctl {
namespace {

bool is_folder(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string absolute(const std::string& path) {
  std::error_code ignored;
  std::string text = std::filesystem::absolute(path, ignored).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

constexpr int kMostRuns = 1000000;
// Runs listed of one job: anybody who may write there can make any number of folders
constexpr size_t kMostListed = 1000;

// dl.toml is read once for a whole list: it may have hundreds of tenants, and the list thousands of jobs. `dlctl top`
// and `status --watch` make a list every few seconds, and follow a change soon.
const std::string& job_dir_pattern() {
  constexpr int64_t kKeptMs = 2000;
  static std::optional<int64_t> read_ms;
  static std::string pattern;
  if (!read_ms || monotonic_ms() - *read_ms > kKeptMs) {
    auto site = load_site_config(default_site_config_path(true));
    pattern = site ? site->job_dir : SiteConfig().job_dir;
    read_ms = monotonic_ms();
  }
  return pattern;
}

// Parses "12.2" or "12_3.2", a run of a job, into the job's id and the run's number. 0 if it has no such form.
int split_run(const std::string& reference, std::string* id) {
  const size_t dot = reference.find('.');
  *id = reference.substr(0, dot);
  if (dot == std::string::npos || !is_slurm_id(*id)) return 0;
  const auto number = parse_int(reference.substr(dot + 1), 1, kMostRuns);
  return number ? static_cast<int>(*number) : 0;
}

std::string names_of(const std::vector<Job>& jobs) {
  constexpr size_t kMostNamed = 8;
  std::string names;
  for (size_t i = 0; i < std::min(jobs.size(), kMostNamed); ++i) names += (i > 0 ? ", " : "") + jobs[i].name();
  return names + (jobs.size() > kMostNamed ? ", ..." : "");
}

// The names that, besides the job's id, may be part of the name of a job directory.
struct Named {
  std::string user, name, work_dir;
};

PathNames names_for(const std::string& id, const Named& job) {
  PathNames names;
  name_job(id, &names);
  names.name = job.name;
  static std::map<std::string, PathNames> known;  // the machine's name services are asked once for each user
  const auto found = known.find(job.user);
  if (found != known.end()) {
    names.user = found->second.user;
    names.home = found->second.home;
    return names;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  const struct passwd* user = job.user.empty() ? ::getpwuid(::getuid()) : ::getpwnam(job.user.c_str());
  if (user != nullptr) {
    names.user = user->pw_name;
    names.home = user->pw_dir;
    known[job.user] = names;
  }
  return names;
}

// The directory of a job of Slurm's, or an empty path.
std::string find_dir(const std::string& id, const Named& job, const std::optional<record::JobComment>& comment) {
  if (comment && !comment->dir.empty()) return comment->dir;
  const std::string& pattern = job_dir_pattern();
  const PathNames names = names_for(id, job);
  // Looks with the rights of the job's user: root may not be able to see the folder (on NFS), and need not.
  const FileRights rights(job.user);
  for (const std::string& base : {job.work_dir, absolute(".")}) {
    if (base.empty()) continue;
    std::string path = record::expand_job_dir(pattern, base, names);
    if (!path.empty() && is_folder(path)) return path;
  }
  return {};
}

struct Accounted {
  Named job;
  std::string comment, state;
};
// What the accounting has recorded of a job that slurmctld has forgotten. Empty without accounting, and for an array,
// of which sacct prints all elements. If it once does not answer in time, it is not asked again: there may be thousands
// of job directories.
Accounted accounted(const std::string& id) {
  static bool silent = false;
  if (silent || find_program("sacct").empty()) return {};
  CommandOptions options;
  options.timeout = std::chrono::seconds(5);
  options.without = slurm_cli::user_settings();
  constexpr char kBetween = '\x1f';  // a "|" may stand in a job's name
  auto result = run_command({"sacct", "-X", "-n", "-P", std::string("--delimiter=") + kBetween, "-o",
                             "JobID,User,JobName,WorkDir,State,Comment", "-j", id},
                            options);
  silent = !result && result.error().code == Errc::kTimeout;
  if (!result || !result->ok()) return {};
  Accounted last;
  for (const std::string& line : split(result->out, '\n')) {
    const std::vector<std::string> fields = split(line, kBetween);
    if (fields.size() >= 6 && fields[0] == id) last = {{fields[1], fields[2], fields[3]}, fields[5], fields[4]};
  }
  return last;
}

// By its name: dl-ID, or the ID alone. "dl-12.2" is the directory of a further dlrun of job 12.
void name_by_folder(std::string name, Job* job) {
  if (name.rfind("dl-", 0) == 0) name.erase(0, 3);
  std::string id;
  if (const int number = split_run(name, &id); number > 1) {
    job->run = number;
    name = id;
  }
  job->id = name;
  job->local = !is_slurm_id(name);
}

}  // namespace

Result<Job> job_of_folder(const std::string& path) {
  Job job;
  const std::string root = absolute(path);
  if (!is_folder(root)) return Error{Errc::kNotFound, "'" + printable(path, 300) + "' is not a folder"};
  // A checkpoint directory is easily given by mistake, since it often lies beside the job directory.
  const auto there = [&](const char* file) { return ::access((root + "/" + file).c_str(), F_OK) == 0; };
  if (!there("events.jsonl") && !there("plan.json") && (there("LEASE") || there("SAVES.jsonl")))
    return Error{Errc::kInvalid, "'" + printable(path, 300) +
                                     "' is a checkpoint directory, not a job directory; allowed: a job id, " +
                                     "the path of a job directory, or dlckpt ls " + printable(path, 300)};
  const std::string name = std::filesystem::path(root).filename().string();
  if (name.rfind("dl-", 0) != 0 && ::access(root.c_str(), X_OK) != 0 && errno == EACCES)
    return Error{Errc::kDenied, "'" + printable(path, 300) +
                                    "' belongs to another user, who alone may look into it; allowed: a job id, or a "
                                    "job directory of yours"};
  if (name.rfind("dl-", 0) != 0 && !there("events.jsonl") && !there("plan.json") && !there("control.json"))
    return Error{Errc::kNotFound, "'" + printable(path, 300) +
                                      "' is not a job directory: no dlrun has written in it; allowed: a job id, or the "
                                      "folder dl-ID of a job"};
  job.dir = record::JobDir(root);
  const PlanFacts plan = read_plan(job.dir, is_foreign(job));
  // A run without Slurm is called as its folder is, which people chose, and not local-DATE-NUMBER.
  if (!is_slurm_id(plan.job_id) || !name_by_plan(plan, &job)) name_by_folder(name, &job);
  return job;
}

namespace {

Result<Job> from_dir(const std::string& path) {
  DL_TRY_ASSIGN(Job job, job_of_folder(path));
  const std::string root = job.dir.root();
  const PlanFacts plan = read_plan(job.dir, is_foreign(job));
  // The comment of a job names the directory of its first dlrun.
  const std::string first = job.run > 0 ? record::split_run_dir(root).first : root;
  const bool ask = !job.local && !find_program("scontrol").empty();
  if (ask && !is_of_other_cluster(plan, our_cluster())) {
    // The folder may have been kept from an earlier job with the same number, so Slurm's job counts only if its comment
    // names this folder.
    auto info = slurm_cli::show_job(job.id);
    if (info) {
      auto comment = record::parse_comment(info->comment);
      if (comment && is_same_folder(comment->dir, first)) {
        job.id = info->job_id;
        job.slurm = std::move(info).value();
        // The comment is about all runs, so it is not used for a single one.
        if (job.run == 0) job.comment = std::move(comment);
      } else if (comment) {
        job.forgotten = true;
      }
    } else if (info.error().code == Errc::kNotFound) {
      job.forgotten = true;
      // The accounting, too, may have a later job of this number.
      Accounted kept = accounted(job.id);
      const auto comment = record::parse_comment(kept.comment);
      const std::string folder = std::filesystem::path(first).parent_path().string();
      if (comment ? is_same_folder(comment->dir, first) : is_same_folder(kept.job.work_dir, folder))
        job.accounted_state = std::move(kept.state);
    }
  }
  return job;
}

// The jobs with this id; several if it is an array.
Result<std::vector<Job>> from_slurm(const std::string& id) {
  Job job;
  job.id = id;
  Named named;
  Error why{Errc::kUnsupported, "Slurm's commands are not installed here, and there is no dl-" + id +
                                    " in this folder; give its job directory with --dir"};
  if (!find_program("scontrol").empty()) {
    auto known = slurm_cli::show_jobs(id);
    if (known) {
      std::vector<Job> jobs;
      for (const slurm_cli::JobInfo& info : *known) jobs.push_back(job_of(info));
      return jobs;
    }
    // If slurmctld does not know the job, the accounting and the job directory may still do. If slurmctld does not
    // answer, the error says so.
    why = std::move(known).error();
    const Accounted kept = accounted(id);
    job.forgotten = why.code == Errc::kNotFound;
    job.accounted_user = kept.job.user;
    if (job.forgotten) job.accounted_state = kept.state;
    job.comment = record::parse_comment(kept.comment);
    named = kept.job;
  }
  const std::string dir = find_dir(id, named, job.comment);
  if (dir.empty()) {
    if (why.code == Errc::kNotFound) {
      why.text = "job " + id + " is not known to Slurm (any more), and there is no dl-" + id +
                 " in this folder; give its job directory with --dir";
    }
    return why;
  }
  job.dir = record::JobDir(dir);
  if (job.forgotten && is_of_other_cluster(read_plan(job.dir, is_foreign(job)), our_cluster())) job.forgotten = false;
  return std::vector<Job>{std::move(job)};
}

Result<std::vector<Job>> only(Result<Job> job) {
  if (!job) return std::move(job).error();
  return std::vector<Job>{std::move(job).value()};
}

Result<Job> the_one(std::vector<Job> jobs, const std::string& reference) {
  if (jobs.size() == 1) return std::move(jobs.front());
  return Error{Errc::kInvalid, "job " + reference + " is an array; allowed: one of its elements, " + names_of(jobs)};
}

}  // namespace

bool is_slurm_id(const std::string& text) {
  if (text.empty() || text.size() > 32 || text[0] == '_' || text.back() == '_') return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || c == '_'; });
}

bool name_by_plan(const PlanFacts& plan, Job* job) {
  const std::string& root = job->dir.root();
  if (plan.job_id.empty() || !is_same_folder(plan.job_dir, root)) return false;
  job->id = plan.job_id;
  job->local = !is_slurm_id(job->id);
  const record::RunName run = record::split_run_dir(root);
  const bool further = is_folder(run.first) || std::filesystem::path(run.first).filename() == "dl-" + job->id;
  if (!job->local && run.number > 1 && further) job->run = run.number;
  return true;
}

const std::string& our_cluster() {
  static const std::string name = slurm_cli::cluster_name();
  return name;
}

Job job_of(const slurm_cli::JobInfo& info) {
  Job job;
  job.id = info.job_id;
  job.slurm = info;
  job.comment = record::parse_comment(info.comment);
  const std::string dir = find_dir(info.job_id, {info.user, info.name, info.work_dir}, job.comment);
  if (!dir.empty()) job.dir = record::JobDir(dir);
  return job;
}

Result<Job> find_job(const std::string& reference, const std::string& dir) {
  DL_TRY_ASSIGN(std::vector<Job> jobs, find_jobs(reference, dir));
  return the_one(std::move(jobs), reference);
}

namespace {

// The jobs that a reference names: one job, one dlrun of a job by its directory, or the elements of an array.
Result<std::vector<Job>> find_any(const std::string& reference, const std::string& dir) {
  if (reference.empty())
    return Error{
        Errc::kInvalid,
        "'' is not a job; allowed: a job id (12, or 12_3 of a job array), local-..., or the path of a job directory"};
  if (is_slurm_id(reference)) {
    if (dir.empty()) return from_slurm(reference);
    Job job;
    job.id = reference;
    if (!is_folder(dir))
      return Error{Errc::kNotFound,
                   "--dir: '" + printable(dir, 300) + "' is not a folder; allowed: the job directory of the job"};
    if (auto known = slurm_cli::show_jobs(reference)) {
      std::vector<Job> jobs;
      for (const slurm_cli::JobInfo& info : *known) jobs.push_back(job_of(info));
      DL_TRY_ASSIGN(job, the_one(std::move(jobs), reference));
    }
    job.dir = record::JobDir(absolute(dir));
    return std::vector<Job>{std::move(job)};
  }
  if (!dir.empty()) return only(from_dir(dir));
  if (reference.find('/') != std::string::npos || reference[0] == '.' || is_folder(reference)) {
    return only(from_dir(reference));
  }
  if (reference.rfind("local-", 0) == 0) {
    if (is_folder("dl-" + reference)) return only(from_dir("dl-" + reference));
    return Error{Errc::kNotFound, "there is no dl-" + printable(reference) + " in this folder; allowed: its path"};
  }
  if (reference.rfind("dl-", 0) == 0) {
    return Error{Errc::kNotFound,
                 "there is no " + printable(reference) + " in this folder; allowed: its path, or a job id"};
  }
  return Error{Errc::kInvalid, "'" + printable(reference) +
                                   "' is not a job; allowed: a job id (12, or 12_3 of a job array), local-..., or the "
                                   "path of a job directory"};
}

// Run `number` of a job with several dlruns, whose directory is `path`.
Job one_run(const Job& job, int number, const std::string& path) {
  Job run = job;
  run.run = number;
  run.dir = record::JobDir(path);
  // The comment is about all runs, so it is not used for a further one.
  if (number > 1) run.comment.reset();
  return run;
}

// stat(), not access(): access() checks the rights of the real user, which is still root.
bool has_events(const std::string& dir) {
  struct stat status = {};
  return ::stat(record::JobDir(dir).events().c_str(), &status) == 0;
}

Error concerns_the_job(const std::string& run, const std::string& id) {
  return {Errc::kInvalid, run + " is one dlrun of job " + id + ", and this concerns the whole job; allowed: " + id};
}

}  // namespace

Result<std::vector<Job>> find_jobs(const std::string& reference, const std::string& dir) {
  if (std::string id; split_run(reference, &id) > 0) return concerns_the_job(reference, id);
  DL_TRY_ASSIGN(std::vector<Job> jobs, find_any(reference, dir));
  if (jobs.front().run > 0) return concerns_the_job(jobs.front().name(), jobs.front().id);
  return jobs;
}

std::vector<Job> runs_of(const Job& job) {
  if (job.local || job.run > 0 || !job.has_dir()) return {job};
  const FileRights rights(job);
  std::vector<Job> runs;
  for (const record::RunDir& dir : record::run_dirs(job.dir.root(), kMostListed))
    if (dir.number == 1 || has_events(dir.path)) runs.push_back(one_run(job, dir.number, dir.path));
  if (runs.size() <= 1) return {job};
  return runs;
}

Job numbered(const Job& job) {
  for (Job& run : runs_of(job))
    if (run.dir.root() == job.dir.root()) return std::move(run);
  return job;
}

Result<std::vector<Job>> find_runs(const std::string& reference, const std::string& dir) {
  std::string id;
  const int number = split_run(reference, &id);
  DL_TRY_ASSIGN(const std::vector<Job> jobs, find_any(number > 0 ? id : reference, dir));
  if (number > 1)
    for (const Job& job : jobs) {
      if (!job.has_dir()) continue;
      const FileRights rights(job);
      const std::string path = record::run_dir(job.dir.root(), number);
      if (has_events(path)) return std::vector<Job>{one_run(job, number, path)};
    }
  std::vector<Job> runs;
  for (const Job& job : jobs)
    for (Job& run : runs_of(job)) runs.push_back(std::move(run));
  if (number == 0) return runs;
  for (Job& run : runs)
    if (run.run == number || (run.run == 0 && number == 1 && runs.size() == 1)) return std::vector<Job>{std::move(run)};
  return Error{Errc::kNotFound, fmt::format("job {} has no run {}; it has {}", id, number, names_of(runs))};
}

Result<Job> find_run(const std::string& reference, const std::string& dir) {
  DL_TRY_ASSIGN(std::vector<Job> runs, find_runs(reference, dir));
  const bool one_job = std::all_of(runs.begin(), runs.end(), [&](const Job& run) { return run.id == runs.front().id; });
  if (runs.size() <= 1 || !one_job) return the_one(std::move(runs), reference);
  return Error{Errc::kInvalid,
               fmt::format("job {} has {} dlruns; allowed: one of them, {}", reference, runs.size(), names_of(runs))};
}

Status check_owner(const Job& job) {
  if (::geteuid() == 0) return {};
  if (job.slurm) {
    const struct passwd* me = ::getpwuid(::geteuid());  // NOLINT(concurrency-mt-unsafe): one thread
    if (me == nullptr || job.slurm->user != me->pw_name) {
      return Error{Errc::kDenied, "job " + job.id + " belongs to " + printable(job.slurm->user)};
    }
    return {};
  }
  struct stat status = {};
  if (job.has_dir() && ::stat(job.dir.root().c_str(), &status) == 0 && status.st_uid != ::geteuid()) {
    return Error{Errc::kDenied, "job " + job.id + " belongs to another user"};
  }
  return {};
}

Result<slurm_cli::JobInfo> refresh(const Job& job) {
  return slurm_cli::show_job(job.id);
}

}  // namespace dl::ctl
