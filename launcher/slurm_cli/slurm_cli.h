// SPDX-License-Identifier: Apache-2.0
// Slurm through its own commands: scontrol and squeue, called by argument vector, with a time-out, their output parsed.
// So dlrun and dlctl link no libslurm and run unchanged beside any version of it. All functions block (dlrun calls them
// on a thread of its own); safe to call from several threads. Errors carry what the command said.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/slurm_cli/job_text.h"

namespace dl::slurm_cli {

struct JobInfo {
  std::string job_id;  // own_id(): what names this job and no other, for all that is done to it
  std::string number;  // Slurm's own number, SLURM_JOB_ID of the job; empty from squeue
  std::string name;
  std::string user;    // name
  std::string state;   // "RUNNING", "PENDING", "COMPLETING", "CANCELLED", ... as Slurm says; SIGNALING is RUNNING
  std::string reason;  // "None", "BeginTime", "Resources", "JobHeldUser", ...
  std::string partition, qos, account;
  std::string comment;
  std::string admin_comment;  // of job_submit_dl and dlpolicyd: users cannot change it
  std::string node_list;      // compressed; empty if none
  std::string excluded;       // nodes it must not get (ExcNodeList), compressed; empty if none
  std::string batch_host;
  std::string work_dir;
  std::string std_out;
  std::string exit_code;  // of the batch script, "137:0": code and signal
  bool requeue = false;   // may be requeued
  bool batch = false;     // has a batch script
  bool held = false;      // by priority 0
  int restarts = 0;
  std::optional<int64_t> time_limit_s;  // none: unlimited or not shown
  // Seconds since the epoch; none if Slurm shows "Unknown", "None", "N/A" or nothing.
  std::optional<int64_t> submit_time, eligible_time, start_time, end_time, preempt_time;
};

// `scontrol show job ID`. kNotFound if Slurm does not know it (any more), kInvalid if what it prints is not understood
// or imitated by the job's owner (job_text.h).
Result<JobInfo> show_job(const std::string& job_id);
// The same for all that the id names to Slurm: of an array each record, in the order of its elements; else one.
Result<std::vector<JobInfo>> show_jobs(const std::string& job_id);
// The jobs of a user (empty: the calling one) or of all ("*"), pending ones and those in hidden partitions included, in
// squeue's order, whatever SQUEUE_* variables the user has set.
Result<std::vector<JobInfo>> list_jobs(const std::string& user);

// What a command of Slurm's that only shows something prints (at most 64 MiB of it). kNotFound of a job that Slurm does
// not know.
Result<std::string> answer_of(const std::vector<std::string>& argv);

Status set_comment(const std::string& job_id, const std::string& comment);
// StartTime of a pending job, `delay` from now; a job that is completing after a requeue counts as pending.
Status set_start_time(const std::string& job_id, std::chrono::seconds delay);
// requeuehold if `hold`; in the same call StartTime = now + delay, so that Slurm's wait of two minutes falls away: when
// the job's last process is gone, slurmctld keeps a begin time that lies ahead and replaces only an older one
// (batch_requeue_fini, seen in 22.05.8). `excluded`: its new ExcNodeList; empty: as it is. The caller's job is killed
// by this.
Status requeue(const std::string& job_id, bool hold, std::chrono::seconds delay, const std::string& excluded = {});
// Takes these nodes out of a running job of the caller's, which keeps the others; steps go on there. Those that it does
// not have are passed over. Needs no more than a job's owner may (not where SchedulerParameters=disable_job_shrink).
// scontrol leaves scripts in its working directory that reset a shell's environment: they are removed from `folder`,
// which must be writable.
Status release_nodes(const std::string& job_id, const std::vector<std::string>& nodes, const std::string& folder);
// Whether a job whose nodes were released can still be changed (its comment, for one). Up to 24.05 not without
// slurmdbd, until the job is requeued: slurmctld waits for a number of the new record, which nobody gives, for 5 s, and
// refuses with ESLURM_JOB_SETTING_DB_INX, which 24.11 no longer has.
bool can_update_after_release();
Status release(const std::string& job_id);
Status hold(const std::string& job_id);

// How far ahead a requeued job may start again: long enough for its last processes to be gone, else slurmctld adds two
// minutes. slurmd looks each second whether they are; an epilog of the site takes longer.
constexpr std::chrono::seconds kRequeueDelay{5}, kRequeueDelayEpilog{15};
// Which of the two holds at this site; the longer one only where Slurm says that there is an epilog.
std::chrono::seconds requeue_delay();
// SlurmdTimeout: for how long a node may be silent before Slurm gives it up; Slurm's default where it does not say.
std::chrono::seconds slurmd_timeout();
// KillWait: between the SIGTERM and the SIGKILL of a job that Slurm ends; Slurm's default where it does not say.
std::chrono::seconds kill_wait();
// {22, 5, 8}
struct Version {
  int major = 0, minor = 0, micro = 0;
  bool at_least(int a, int b) const { return major > a || (major == a && minor >= b); }
};
Result<Version> slurm_version();
// The names that `srun --mpi=` takes here ("none", "pmi2", "pmix", "pmix_v4"), by srun's own list. kIo if srun gives
// none.
Result<std::vector<std::string>> mpi_plugins();

// The parsers, pure.
JobInfo job_info_of(const JobText& text);
// As parse_job_text(); its job_id is `job_id` if that is the name of an element.
Result<JobInfo> parse_show_job(const std::string& text, const std::string& job_id);
Result<std::vector<JobInfo>> parse_show_jobs(const std::string& text);
Result<std::vector<JobInfo>> parse_squeue(const std::string& text);
std::optional<int64_t> parse_slurm_time(const std::string& text);  // local time "2026-11-21T03:00:00"
Result<Version> parse_version(const std::string& text);            // "slurm-wlm 22.05.8", "slurm 24.05.1"
// `text`: what `srun --mpi=list` prints (src/common/plugrack.c of Slurm: a name a line behind a tab, then the versions
// of pmix in one line). Empty if it is no such text.
std::vector<std::string> mpi_plugins_of(const std::string& text);
// `config`: what `scontrol show config` prints. Without slurmdbd its AccountingStorageType is "accounting_storage/none"
// up to 23.02 and "(null)" later.
bool has_slurmdbd(const std::string& config);
std::chrono::seconds kill_wait_of(const std::string& config);  // "KillWait = 30 sec"
bool can_update_after_release(const std::string& config, const Version& version);

}  // namespace dl::slurm_cli
