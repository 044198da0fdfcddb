// SPDX-License-Identifier: Apache-2.0
// From what a person typed to a job: what Slurm says of it, and where its job directory is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/record/job_comment.h"
#include "launcher/record/job_dir.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {

struct Job {
  std::string id;                             // slurm_cli::own_id(), or "local-..."
  bool local = false;                         // run without Slurm
  std::optional<slurm_cli::JobInfo> slurm;    // none: local, or Slurm does not know it any more
  std::optional<record::JobComment> comment;  // ours, if it has one
  std::string accounted_user;                 // whose it was, by the accounting, where slurmctld has forgotten it
  record::JobDir dir;                         // root() is empty if it is not known
  int run = 0;                                // of several dlruns of the job this one; 0: the job has one
  bool has_dir() const { return !dir.root().empty(); }
  // As people type it: "12", "12.2".
  std::string name() const { return run == 0 ? id : id + "." + std::to_string(run); }
};

// "12", and "12_3" of an array. Pure.
bool is_slurm_id(const std::string& text);

// `reference`: a job id, "local-...", or the path of a job directory. `dir`: --dir, or empty. A job of Slurm's is
// looked for in slurmctld, then in the accounting (its comment names the directory), then as dl-ID under the present
// folder. kNotFound if nothing of it is found anywhere; kInvalid if the reference cannot be a job.
// kInvalid, with the names of its elements, if it is a job array of which Slurm has several records.
Result<Job> find_job(const std::string& reference, const std::string& dir);

// The same, but of a job array each record: elements that have begun, and those that wait together ("12_[3-7]").
// kInvalid for one of several dlruns ("12.2", or its directory).
Result<std::vector<Job>> find_jobs(const std::string& reference, const std::string& dir);

// The same, but of a job with several dlruns each of them; "12.2", or its directory, names one.
Result<std::vector<Job>> find_runs(const std::string& reference, const std::string& dir);
Result<Job> find_run(const std::string& reference, const std::string& dir);
// The dlruns of a job that was found, 1000 at most: itself where it has one alone. Looked for with the rights of the
// job's user.
std::vector<Job> runs_of(const Job& job);

// The same for a job that Slurm has just listed.
Job job_of(const slurm_cli::JobInfo& info);

// kDenied "job 12 belongs to bob" unless it is the caller's, or the caller is root.
Status check_owner(const Job& job);

// Looks up the job in slurmctld once more. kNotFound if it is gone.
Result<slurm_cli::JobInfo> refresh(const Job& job);

}  // namespace dl::ctl
