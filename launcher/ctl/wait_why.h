// SPDX-License-Identifier: Apache-2.0
// Explains from the output of Slurm's commands why a job waits: a sentence, and the numbers behind it. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/json/json.h"
#include "launcher/slurm_cli/job_text.h"

namespace dl::ctl {

// The output of Slurm's commands. Any text may be empty; the answer then says less.
struct WaitTexts {
  slurm_cli::JobText job;    // scontrol show job
  std::string nodes;         // scontrol --oneliner --details show nodes
  std::string partition;     // scontrol --oneliner show partition NAME
  std::string queue;         // squeue of its partition, highest priority first, and of the jobs it depends on
  std::string queue_gpus;    // squeue of the same partition: what each job asks for of GPUs (kQueueGpusFormat)
  std::string priority;      // sprio
  std::string qos_limits;    // scontrol show assoc_mgr flags=qos
  std::string assoc_limits;  // the same, flags=assoc
  std::string licences;      // scontrol --oneliner show licenses
  std::string reservation;   // scontrol --oneliner show reservation NAME
  bool paused = false;       // dlctl paused it
  std::string put_back;      // why it was put back into the queue, or empty
  int64_t now_s = 0;         // since the epoch
};

struct WaitAnswer {
  std::string sentence;            // "job 12 waits: jobs of higher priority are ahead (Priority)"
  std::vector<std::string> lines;  // the numbers, a sentence each, the most important first
  std::string advice;              // what its owner can do; empty: only wait
  bool can_ever_run = true;
  Json json;
};

// Takes a job in any state; if it runs or has ended, the sentence says so.
WaitAnswer explain_wait(const WaitTexts& texts);

// needs_limits: whether qos_limits and assoc_limits are needed for this job's reason. dependency_ids: the job ids that
// a dependency ("afterok:12:13") names.
bool needs_limits(const slurm_cli::JobText& job);
std::vector<std::string> dependency_ids(const std::string& dependency);

}  // namespace dl::ctl
