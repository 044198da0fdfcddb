// SPDX-License-Identifier: Apache-2.0
// Reads nodes and jobs from slurmctld, and changes jobs, through the public libslurm. This is the only file of observe
// and dlpolicyd that knows libslurm's types and how they differ from 22.05 to 25.11; never linked into plugins or
// dlrun. All functions block until slurmctld answers or Slurm's MessageTimeout (and its retries) has passed; from one
// thread at a time. Errors: kNotFound (the job is unknown), kDenied (not an operator), kBusy (slurmctld does not
// answer), kConflict (the job is not in a state for it), kUnsupported (of update_job(): the job takes no change now,
// policyd/sealed_jobs.h), kIo for all else, each with Slurm's own words.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "slurm-plugin/observe/records.h"

namespace dl::observe {

// Reads slurm.conf. To be called once, before any other function here. libslurm ends the process with a line on stderr
// if the file is unusable.
void start_slurm();

// Slurm's KillWait in seconds: the time from SIGTERM to SIGKILL. kUnsupported if slurmctld has another major.minor than
// the headers with which this was compiled.
Result<int64_t> check_controller();

// Reads all nodes and jobs, with the details of allocations. An operator or administrator sees the jobs of all users.
// slurmctld sends the nodes only if one has changed since the last call, and likewise the jobs.
class Observer {
 public:
  Observer();
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // The result is valid until the next call. After an error the next call asks for everything.
  Result<const Records*> load();

 private:
  Status load_nodes();
  Status load_jobs();
  void load_switches();
  const std::string& user_name(uint32_t uid);

  Records records_;
  std::map<uint32_t, std::string> users_;  // names by uid, of users that were looked up
  int64_t nodes_s_ = 0;                    // when nodes last changed, as slurmctld reported it
  int64_t jobs_s_ = 0;
  int64_t switches_s_ = 0;  // when the switches were last asked for
};

// The changes to one job, sent in one message. Members without a value stay as they are.
struct JobUpdate {
  std::optional<std::string> licenses;  // an operator may change them on a running job, too; empty: no licences
  std::optional<std::string> admin_comment;
  std::optional<int64_t> begin_s;  // of a pending job: seconds since 1970
  std::optional<int64_t> site_factor;
  std::optional<uint32_t> min_nodes, max_nodes;  // of a pending job
  bool cpus_of_nodes = false;                    // with min_nodes: it asks for no more CPUs than so many nodes need
  std::optional<bool> hold;                      // of a pending job: true holds it, false releases it
  std::optional<bool> requeue;                   // of a batch job: whether Slurm may requeue it

  bool empty() const {
    return !licenses && !admin_comment && !begin_s && !site_factor && !min_nodes && !max_nodes && !hold && !requeue;
  }
};
// `job` is an id of policy/job_id.h. The update splits a waiting element off its job array: it gets an id of its own.
Status update_job(int64_t job, const JobUpdate& update);

// Sends a signal to all processes of the job's steps, but not to the batch script. `job` is an id of policy/job_id.h.
Status signal_steps(int64_t job, int signal);

// Ends the job (an id of policy/job_id.h) and puts it back into the queue. Slurm starts it two minutes later at the
// earliest, unless its begin time is set.
Status requeue(int64_t job);

// Ends the job as scancel does: SIGTERM, and after Slurm's KillWait SIGKILL.
Status end_job(int64_t job);

// Writes a line into the output of a running job, or to its user's terminal. Only root may; others are refused with
// kDenied. `id` is Slurm's own id, not one of policy/job_id.h.
Status tell_job(int64_t id, const std::string& text);

}  // namespace dl::observe
