// SPDX-License-Identifier: Apache-2.0
// Finds the job that a user names: Slurm's record of it, and its job directory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/ctl/plan_facts.h"
#include "launcher/record/job_comment.h"
#include "launcher/record/job_dir.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {

struct Job {
  std::string id;                             // slurm_cli::own_id(), or "local-..."
  bool local = false;                         // run without Slurm
  std::optional<slurm_cli::JobInfo> slurm;    // none: local, or slurmctld has forgotten it
  std::optional<record::JobComment> comment;  // slurm-dl's part of its comment, if it has one
  bool forgotten = false;                     // slurmctld says that it does not know this job of its own (any more)
  std::string accounted_user;                 // its user by sacct, if slurmctld has forgotten it
  std::string accounted_state;                // its state by sacct, if slurmctld has forgotten it; or empty
  record::JobDir dir;                         // root() is empty if it is not known
  int run = 0;                                // which of the job's dlruns, from 1; 0: it has only one
  bool has_dir() const { return !dir.root().empty(); }
  // As users write it: "12", "12.2".
  std::string name() const { return run == 0 ? id : id + "." + std::to_string(run); }
};

// "12", and "12_3" of an array. Pure.
bool is_slurm_id(const std::string& text);

// Sets job->id, job->local and job->run from `plan`, the plan in job->dir, if the plan names that directory as its own.
// (The directory's name tells less: --job-dir and job_dir of dl.toml may give it any name.) Else returns false and
// changes nothing.
bool name_by_plan(const PlanFacts& plan, Job* job);

// `reference`: a job id, "local-...", or the path of a job directory. `dir`: --dir, or empty. A Slurm job is looked for
// in slurmctld, then in the accounting (its comment names the directory), then as dl-ID in the current folder.
// kNotFound if it is in none of these; kInvalid if the reference cannot be a job.
// kInvalid, with the names of its elements, if it is a job array for which Slurm has several records.
Result<Job> find_job(const std::string& reference, const std::string& dir);

// The same, but returns each record of a job array: elements that have begun, and those that wait ("12_[3-7]").
// kInvalid if the reference names a single dlrun of a job ("12.2", or its directory).
Result<std::vector<Job>> find_jobs(const std::string& reference, const std::string& dir);

// The same, but find_runs() returns each dlrun of a job that has several. "12.2", or its directory, names one dlrun.
// find_run() gives kInvalid, with their names, if there are several.
Result<std::vector<Job>> find_runs(const std::string& reference, const std::string& dir);
Result<Job> find_run(const std::string& reference, const std::string& dir);
// The dlruns of a job, at most 1000; the job itself if it has only one. Reads the folder with the rights of the job's
// user.
std::vector<Job> runs_of(const Job& job);
// Returns the dlrun that wrote job.dir: if the job has several dlruns, with its number (1 for the first); else the job
// itself.
Job numbered(const Job& job);

// The job that has this job directory, without a word to Slurm. kNotFound or kInvalid if it is none.
Result<Job> job_of_folder(const std::string& path);

// Makes a Job of a record that Slurm has just listed, and looks for its directory.
Job job_of(const slurm_cli::JobInfo& info);

// kDenied "job 12 belongs to bob" unless it is the caller's, or the caller is root.
Status check_owner(const Job& job);

// Slurm's name of the cluster that is asked here, looked up once; empty if it cannot be read.
const std::string& our_cluster();

// Looks up the job in slurmctld once more. kNotFound if it is gone.
Result<slurm_cli::JobInfo> refresh(const Job& job);

}  // namespace dl::ctl
