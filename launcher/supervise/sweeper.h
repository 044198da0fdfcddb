// SPDX-License-Identifier: Apache-2.0
// Ends what is left of an attempt whose agents may not have ended their learners, on each node of the run.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "launcher/supervise/node_pool.h"
#include "launcher/supervise/slurm_job.h"

namespace dl::supervise {

class Sweeper {
 public:
  // slurm, nodes: borrowed. agent_path: the program that sweeps a node.
  Sweeper(SlurmJob* slurm, const NodePool* nodes, std::string agent_path)
      : slurm_(slurm), nodes_(*nodes), agent_path_(std::move(agent_path)) {}

  // Kills all processes that have this run id (env::kRunId). `done` is called when that is over: without Slurm before
  // this returns, else when the job step that does it has ended, which gets 20 s. If a node is lost, nothing is done
  // under Slurm, since a job step on that node would not start, and `done` is called at once.
  void sweep(const std::string& run_id, std::function<void()> done);

 private:
  SlurmJob* slurm_;
  const NodePool& nodes_;
  std::string agent_path_;
};

}  // namespace dl::supervise
