// SPDX-License-Identifier: Apache-2.0
// What may be used: nodes, tasks, CPUs and GPUs, from Slurm's environment or of this machine alone. Pure: the caller
// hands in the environment, and the text that scontrol printed.
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
  int gpus = -1;  // that are free; -1 = unknown
  // What other runs of the job have of it (launcher/runs).
  std::vector<int> taken = {};  // GPUs, by their position among the job's on this node
  int taken_cpus = 0, taken_tasks = 0;
};

struct Allocation {
  enum class Source { kSlurm, kLocal };
  Source source = Source::kLocal;
  std::vector<Node> nodes;      // in Slurm's order; never empty
  bool nodes_left_out = false;  // Slurm gave more nodes than stand here: a bad one was left out
  std::string job_id;           // Slurm's number, "ARRAY_INDEX" of an array, or "local-YYYYmmdd-HHMMSS-PID"
  std::string job_name;
  std::string submit_dir;             // where the job was submitted, or its --chdir; absolute, or empty
  int cpus_per_task = 0;              // 0 = not given
  int tasks = 0;                      // of the whole job, 0 = not given
  int restart_count = 0;              // how often Slurm has put the job back
  std::optional<int64_t> end_time_s;  // when the time limit ends the job, Unix time; absent = unknown or none
};

// True if the environment is that of a batch script, of salloc's shell or of a job step.
bool in_slurm_job(const Environment& environment);

// From SLURM_*. kNotFound if in_slurm_job() is false; kInvalid "SLURM_X='...': ..." for what does not parse;
// kConflict if the caller is itself one of several tasks of a step (`srun dlrun ...`).
Result<Allocation> allocation_from_slurm(const Environment& environment);

// One machine without Slurm. gpus: -1 = unknown.
Allocation local_allocation(const std::string& host_name, int cpus, int gpus, const std::string& job_id,
                            const std::string& work_dir);

// Makes GPUs per node and the end time exact from what `scontrol show job -d JOBID` printed, where the environment
// leaves them open (the end time before Slurm 23.02; GPUs per node under --gpus=TOTAL), and gives an element of an
// array its name, ARRAY_INDEX, which is certain only there, as is --chdir. What it does not say stays.
void refine_from_scontrol(const slurm_cli::JobText& job, Allocation* allocation);

}  // namespace dl::plan
