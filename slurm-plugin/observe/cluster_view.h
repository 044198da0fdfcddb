// SPDX-License-Identifier: Apache-2.0
// Turns Slurm's records into the state that the policy decides on. Pure. The records may be hostile or contradict one
// another: what cannot be understood is left out, and the resulting state always passes policy::check().
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "slurm-plugin/observe/records.h"
#include "slurm-plugin/policy/cluster_state.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl::observe {

// What is known of a job of a tenant besides its policy::Job.
struct SeenJob {
  size_t record = 0;  // index into Records::jobs; elements of a job array may share one
  int64_t id = 0;     // policy/job_id.h
  policy::JobLabel label;
  bool dlrun = false;       // its comment says that dlrun steers it: it hears a signal
  bool completing = false;  // it is ending: it still holds GPUs, and cannot be sent anything
  bool gated = false;       // pending, and its begin time is a gate of dlpolicyd's
};

// A job whose tenant is not declared in dl.toml any more, so that nobody is charged for it.
struct Uncharged {
  size_t record = 0;  // index into Records::jobs
  policy::JobLabel label;
  int gpus = 0;  // GPUs that it holds; 0: it waits
};

struct ClusterView {
  policy::ClusterState state;
  std::vector<SeenJob> jobs;   // one for each of state.jobs, in the same order
  std::vector<SeenJob> aside;  // pending jobs of tenants that no decision concerns now: held, with a dependency, ...
  std::vector<Uncharged> uncharged;
  int foreign_gpus = 0;  // GPUs held by jobs of no tenant; the nodes count as smaller by so many
};

struct ViewOptions {
  int64_t min_run_s = 600;
  int64_t grace_s = 120;
  bool lend_idle = false;         // a job that uses none of its GPUs does without its quota
  std::set<int64_t> passed_over;  // pending jobs to put aside, by id
  int64_t gate_s =
      60;  // the length of gates: a borrower's begin time that is at most so far ahead was set by dlpolicyd
};

// `site`: types and tenants from dl.toml; its nodes and jobs are ignored. GPU types of nodes that it lacks are added;
// GPUs without a type have the type "gpu". A job counts as a victim that was asked to yield only if that happened in
// its present attempt and the claimant still waits; else it is a borrower like any other.
ClusterView view_cluster(const policy::ClusterState& site, const Records& records, const ViewOptions& options);

// Whether the job goes back into the queue when its lent GPUs are taken, as its user was told at submission.
bool comes_back(const policy::JobLabel& label, const JobRecord& record);

// Slurm keeps the waiting elements of a job array in one record. At most so many of them are seen at once; the others
// follow when these have started.
constexpr size_t kElementsSeen = 64;

// A job whose begin time is at most so far ahead counts as waiting: a requeue takes about that long.
constexpr int64_t kSoonS = 20;

}  // namespace dl::observe
