// SPDX-License-Identifier: Apache-2.0
// Why Slurm lets a job wait, from what its commands say: a sentence, and the numbers. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/json/json.h"
#include "launcher/slurm_cli/job_text.h"

namespace dl::ctl {

// What could be asked. Each text may be empty: the answer then says less.
struct WaitTexts {
  slurm_cli::JobText job;    // scontrol show job
  std::string nodes;         // scontrol --oneliner show nodes
  std::string partition;     // scontrol --oneliner show partition NAME
  std::string queue;         // squeue of its partition, in the order of priority; and the jobs that it depends on
  std::string priority;      // sprio
  std::string qos_limits;    // scontrol show assoc_mgr flags=qos
  std::string assoc_limits;  // the same, flags=assoc
  std::string licences;      // scontrol --oneliner show licenses
  std::string reservation;   // scontrol --oneliner show reservation NAME
  bool paused = false;       // dlctl paused it
  int64_t now_s = 0;         // since the epoch
};

struct WaitAnswer {
  std::string sentence;            // "job 12 waits: jobs of higher priority are ahead (Priority)"
  std::vector<std::string> lines;  // the numbers, a sentence each, the most telling first
  std::string advice;              // what its owner may do; empty: nothing but to wait
  bool can_ever_run = true;
  Json json;
};

// Of a job in any state: one that runs or has ended waits for nothing, and the sentence says that.
WaitAnswer explain_wait(const WaitTexts& texts);

// Whether the limits of QOS, accounts and users have to be asked for; the jobs that a dependency names ("12,13").
bool needs_limits(const slurm_cli::JobText& job);
std::vector<std::string> dependency_ids(const std::string& dependency);

}  // namespace dl::ctl
