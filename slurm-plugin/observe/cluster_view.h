// SPDX-License-Identifier: Apache-2.0
// Turns Slurm's records into the state that the policy decides on. Pure. The records may be forged or contradict one
// another: whatever makes no sense is left out, and the resulting state always passes policy::check().
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "slurm-plugin/observe/records.h"
#include "slurm-plugin/policy/cluster_state.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl::observe {

// The job's id of policy/job_id.h. That of an array element is made from the array's id and its index, so that it stays
// the same when Slurm gives the element a job id of its own.
int64_t id_of(const JobRecord& record);

// Facts about a tenant's job that its policy::Job does not hold.
struct SeenJob {
  size_t record = 0;  // index into Records::jobs; elements of a job array may share one
  int64_t id = 0;     // policy/job_id.h
  policy::JobLabel label;
  bool dlrun = false;       // its comment says that dlrun runs it, so it reacts to a signal
  bool completing = false;  // it is ending: it still holds GPUs, but gets no more signals or changes
  bool gated = false;       // pending, and its begin time is a gate that dlpolicyd has set
  // Of a job that runs: the records of its companions that wait, run or are ending (common/contract/companion_hint.h).
  std::vector<size_t> companions;
};

// A job whose tenant is no longer declared in dl.toml, so that nobody is charged for it.
struct Uncharged {
  size_t record = 0;  // index into Records::jobs
  policy::JobLabel label;
  int gpus = 0;  // number of GPUs that it holds; 0: it waits
};

struct ClusterView {
  policy::ClusterState state;
  std::vector<SeenJob> jobs;  // one for each of state.jobs, in the same order
  // pending jobs of tenants that no decision concerns now, such as held ones or those with a dependency
  std::vector<SeenJob> aside;
  std::vector<Uncharged> uncharged;
  int foreign_gpus = 0;  // GPUs held by jobs of no tenant; the nodes are counted as smaller by this number
};

struct ViewOptions {
  int64_t min_run_s = 600;
  int64_t grace_s = 120;
  bool lend_idle = false;         // a job that uses none of its GPUs gives its quota up until it uses them again
  bool chosen_sizes = false;      // an elastic job that waits starts with no more learners than were chosen for it
  std::set<int64_t> passed_over;  // ids of pending jobs to put into `aside`
  // The length of gates: a begin time of a borrowing job that is no further ahead than this was set by dlpolicyd.
  int64_t gate_s = 60;
};

// `site` gives types and tenants, from dl.toml; its nodes and jobs are ignored. GPU types of nodes that it lacks are
// added; GPUs without a type have the type "gpu". A job counts as a victim that was asked to yield only if it was asked
// in its present attempt and the claimant still waits; otherwise it is a borrower like any other.
ClusterView view_cluster(const policy::ClusterState& site, const Records& records, const ViewOptions& options);

// Whether the job goes back into the queue when its borrowed GPUs are taken back, as its user was told at submission.
bool comes_back(const policy::JobLabel& label, const JobRecord& record);

// Slurm keeps the waiting elements of a job array in one record. At most this many of them are seen at once; the others
// follow when these have started.
constexpr size_t kElementsSeen = 64;

// A job whose begin time is at most this far ahead counts as waiting: a requeue takes about that long.
constexpr int64_t kSoonS = 20;

}  // namespace dl::observe
