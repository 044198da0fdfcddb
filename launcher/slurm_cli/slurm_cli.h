// SPDX-License-Identifier: Apache-2.0
// Slurm through its own commands (scontrol, squeue, ...), called by argument vector with a time-out. So dlrun and dlctl
// link no libslurm and work with any version of Slurm. All functions except the parsers block (dlrun calls them on a
// thread of its own); safe to call from several threads. Errors carry what the command said.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "launcher/slurm_cli/job_text.h"

namespace dl::slurm_cli {

struct JobInfo {
  std::string job_id;  // own_id(): names this job and no other; use it in all commands
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

// `scontrol show job ID`. kNotFound if Slurm does not know the job (any more), kInvalid if the output cannot be parsed
// or a text of the job's owner imitates it (job_text.h).
Result<JobInfo> show_job(const std::string& job_id);
// The same for all records that the id names: for an array one or more, in the order of its elements; else one.
Result<std::vector<JobInfo>> show_jobs(const std::string& job_id);
// The jobs of a user (empty: the calling one) or of all ("*"), pending ones and those in hidden partitions included, in
// squeue's order, whatever SQUEUE_* variables the user has set. kEnded: also those that have ended and that slurmctld
// still knows.
enum class Which { kQueued, kEnded };
Result<std::vector<JobInfo>> list_jobs(const std::string& user, Which which = Which::kQueued);

// The standard output (at most 64 MiB) of a Slurm command that changes nothing. kNotFound for a job that Slurm does not
// know.
Result<std::string> answer_of(const std::vector<std::string>& argv);

// Submits a batch job and returns its id. options: of sbatch; script: its text. The job gets none of the variables by
// which this process knows the job that it runs in.
Result<std::string> submit(const std::vector<std::string>& options, const std::string& script);
// scancel with these arguments; whether any job is meant is not told.
Status cancel(const std::vector<std::string>& arguments);

Status set_comment(const std::string& job_id, const std::string& comment);
// Sets StartTime of a pending job to now + delay; a job that is completing after a requeue counts as pending.
Status set_start_time(const std::string& job_id, std::chrono::seconds delay);
// Requeues the job (requeuehold if `hold`) and in the same call sets StartTime = now + delay, which avoids Slurm's wait
// of two minutes: when the job's last process is gone, slurmctld keeps a begin time in the future and replaces only an
// older one (batch_requeue_fini, seen in 22.05.8). excluded: the new ExcNodeList; empty: unchanged. If it is the
// caller's own job, Slurm kills the caller.
Status requeue(const std::string& job_id, bool hold, std::chrono::seconds delay, const std::string& excluded = {});
// Gives these nodes of the caller's running job back to Slurm; steps on the other nodes go on. Nodes that the job does
// not have are ignored; kInvalid if none would be left. A job's owner may do this, unless SchedulerParameters has
// disable_job_shrink. scontrol writes two scripts into its working directory, `folder`, which must be writable; they
// are removed.
Status release_nodes(const std::string& job_id, const std::vector<std::string>& nodes, const std::string& folder);
// True if a job can still be changed (for example its comment) after release_nodes(). Up to 24.05 without slurmdbd it
// cannot until it is requeued: slurmctld waits 5 s for the record number that slurmdbd would assign and refuses with
// ESLURM_JOB_SETTING_DB_INX, which 24.11 no longer has.
bool can_update_after_release();
Status release(const std::string& job_id);
Status hold(const std::string& job_id);

// Delays after which a requeued job may start again. The job's last processes must be gone by then, else slurmctld adds
// two minutes; slurmd checks that each second, and an epilog takes longer.
constexpr std::chrono::seconds kRequeueDelay{5}, kRequeueDelayEpilog{15};
// The delay for this site: the longer one if Slurm's configuration names an epilog.
std::chrono::seconds requeue_delay();
// SlurmdTimeout: how long a node may be silent before Slurm sets it DOWN; 300 s if it cannot be read.
std::chrono::seconds slurmd_timeout();
// KillWait: the time between SIGTERM and SIGKILL for a job that Slurm ends, which slurmd makes 5 s at least; 30 s if it
// cannot be read.
std::chrono::seconds kill_wait();
bool signals_reach_all();  // signals_reach_all_of() this cluster's configuration; false if it cannot be read
// ClusterName: the cluster that Slurm's commands talk to here; empty if it cannot be read.
std::string cluster_name();
// {22, 5, 8}
struct Version {
  int major = 0, minor = 0, micro = 0;
  bool at_least(int a, int b) const { return major > a || (major == a && minor >= b); }
};
Result<Version> slurm_version();
// The names that `srun --mpi=` accepts here ("none", "pmi2", "pmix", "pmix_v4"), from srun --mpi=list. kIo if it prints
// none.
Result<std::vector<std::string>> mpi_plugins();

// The parsers, pure.
JobInfo job_info_of(const JobText& text);
// As parse_job_text(); its job_id is `job_id` if that is the name of an element.
Result<JobInfo> parse_show_job(const std::string& text, const std::string& job_id);
Result<std::vector<JobInfo>> parse_show_jobs(const std::string& text);
// mark: what each record begins with, since fields of users may hold line breaks.
Result<std::vector<JobInfo>> parse_squeue(const std::string& text, const std::string& mark);
// The id that squeue shows (%i), without the number of elements that may run at once: "12_[0-3]" of "12_[0-3%1]".
std::string id_of_squeue(std::string shown);
std::optional<int64_t> parse_slurm_time(const std::string& text);  // local time "2026-11-21T03:00:00"
Result<Version> parse_version(const std::string& text);            // "slurm-wlm 22.05.8", "slurm 24.05.1"
// text: what `srun --mpi=list` prints (Slurm's src/common/plugrack.c: one name a line after a tab, then the pmix
// versions in one line). Empty if it is not such a text.
std::vector<std::string> mpi_plugins_of(const std::string& text);
// The value of one setting in `config`, which is what `scontrol show config` prints, one "KEY = VALUE" a line; of
// several with this name the first. Empty if there is none.
std::string setting_of(const std::string& config, std::string_view name);
// Without slurmdbd its AccountingStorageType is "accounting_storage/none"
// up to 23.02 and "(null)" later.
bool has_slurmdbd(const std::string& config);
std::string cluster_name_of(const std::string& config);        // "ClusterName = c1"
std::chrono::seconds kill_wait_of(const std::string& config);  // "KillWait = 30 sec"
// Whether a signal for a job step reaches all processes of its tasks: so with proctrack/linuxproc alone. With
// proctrack/cgroup and proctrack/pgid the tasks themselves get it, unless it is SIGKILL (Slurm's proctrack_cgroup.c).
bool signals_reach_all_of(const std::string& config);
bool can_update_after_release(const std::string& config, const Version& version);

}  // namespace dl::slurm_cli
