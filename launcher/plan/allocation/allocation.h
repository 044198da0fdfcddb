// SPDX-License-Identifier: Apache-2.0
// What a run may use: nodes, tasks, CPUs and GPUs, from Slurm's environment, or of this machine without Slurm. Pure:
// the caller passes the environment, and what scontrol printed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/slurm_cli/job_text.h"

namespace dl::plan {

using Environment = std::map<std::string, std::string>;

struct Node {
  std::string name;
  int tasks = 0;  // tasks that Slurm counted on it, 0 = unknown
  int cpus = 0;   // 0 = unknown
  int gpus = -1;  // not used by other runs of the job; -1 = unknown
  // What other runs of the job use of it (launcher/runs).
  std::vector<int> taken = {};  // GPUs, by their position among the job's on this node
  int taken_cpus = 0, taken_tasks = 0;
  std::string companion = {};  // the job whose node it is, if that is a companion of this one; else empty
};

struct Allocation {
  enum class Source { kSlurm, kLocal };
  Source source = Source::kLocal;
  std::vector<Node> nodes;      // in Slurm's order; never empty
  bool nodes_left_out = false;  // nodes of the job are missing here, because they were bad or lost
  std::string job_id;           // Slurm's number, "ARRAY_INDEX" of an array, or "local-YYYYmmdd-HHMMSS-PID"
  std::string cluster;          // Slurm's name of the cluster; empty without Slurm
  std::string job_name;
  std::string submit_dir;             // where the job was submitted, or its --chdir; absolute, or empty
  int cpus_per_task = 0;              // 0 = not given
  int tasks = 0;                      // of the whole job, 0 = not given
  bool of_step = false;               // read in a plain step of one task, where the environment does not tell `tasks`
  int restart_count = 0;              // how often Slurm has requeued the job
  std::optional<int64_t> end_time_s;  // when the time limit ends the job, Unix time; absent = unknown or none
};

// True if the environment is that of a batch script, of salloc's shell or of a job step.
bool in_slurm_job(const Environment& environment);

// From SLURM_*. kNotFound if in_slurm_job() is false; kInvalid "SLURM_X='...': ..." if a value cannot be parsed;
// kConflict if the caller is itself one of several tasks of a step (`srun dlrun ...`).
Result<Allocation> allocation_from_slurm(const Environment& environment);

// One machine without Slurm. gpus: -1 = unknown.
Allocation local_allocation(const std::string& host_name, int cpus, int gpus, const std::string& job_id,
                            const std::string& work_dir);

// The nodes of a companion: another job, of which scontrol printed this with -d, and whose nodes are to be used like
// this job's. kInvalid if it shows no nodes.
Result<std::vector<Node>> nodes_of_companion(const slurm_cli::JobText& companion);

// Completes *allocation from what `scontrol show job -d JOBID` printed: what the environment does not say (the end time
// before Slurm 23.02; GPUs per node under --gpus=TOTAL), and what only scontrol says reliably (the name ARRAY_INDEX of
// an array element, and --chdir). Fields that scontrol does not show stay unchanged.
void refine_from_scontrol(const slurm_cli::JobText& job, Allocation* allocation);

}  // namespace dl::plan
