// SPDX-License-Identifier: Apache-2.0
// From Slurm's records to what the policy sees. Pure; the records may be hostile or contradict one another: what cannot
// be understood is left out, never trusted, and the state that results passes policy::check().
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "slurm-plugin/observe/records.h"
#include "slurm-plugin/policy/cluster_state.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl::observe {

// One of our jobs, beside policy::Job.
struct SeenJob {
  size_t record = 0;  // index into Records::jobs; elements of a job array may share one
  int64_t id = 0;     // policy/job_id.h
  policy::JobLabel label;
  bool dlrun = false;       // its comment says that dlrun steers it: it hears a signal
  bool completing = false;  // on its way out: it holds GPUs, and nothing can be told to it
  bool gated = false;       // pending, and its begin time is a gate of dlpolicyd's
};

// A job of a tenant that dl.toml does not declare any more: nobody is charged for it.
struct Uncharged {
  size_t record = 0;  // index into Records::jobs
  policy::JobLabel label;
  int gpus = 0;  // that it holds; 0: it waits
};

struct ClusterView {
  policy::ClusterState state;
  std::vector<SeenJob> jobs;   // one for each of state.jobs, in the same order
  std::vector<SeenJob> aside;  // ours, pending, but nothing is to be decided about them now: held, a dependency, ...
  std::vector<Uncharged> uncharged;
  int foreign_gpus = 0;  // held by jobs that are not ours: the nodes count as so much smaller
};

struct ViewOptions {
  int64_t min_run_s = 600;
  int64_t grace_s = 120;
  bool lend_idle = false;         // a job that uses none of its GPUs does without its quota
  std::set<int64_t> passed_over;  // pending jobs to put aside, by id
  int64_t gate_s = 60;            // of gates: a begin time of a borrower that is not further ahead is dlpolicyd's doing
};

// `site`: types and tenants, as dl.toml has them; its nodes and jobs do not matter. A GPU type of a node that it does
// not know is added; GPUs without a type are of type "gpu". What was asked of a victim is believed only if it was asked
// in this attempt of the job, and only while the claimant waits; else the victim counts as any other borrower.
ClusterView view_cluster(const policy::ClusterState& site, const Records& records, const ViewOptions& options);

// Whether the job goes back into the queue when its lent GPUs are taken, as its user was told at submission.
bool comes_back(const policy::JobLabel& label, const JobRecord& record);

// Of the waiting elements of a job array that Slurm has in one record, at most so many are seen at once: the others can
// start when these have.
constexpr size_t kElementsSeen = 64;

// How far ahead a job may begin and still count as waiting: what a requeue takes.
constexpr int64_t kSoonS = 20;

}  // namespace dl::observe
