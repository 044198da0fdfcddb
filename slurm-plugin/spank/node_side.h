// SPDX-License-Identifier: Apache-2.0
// spank_dl.so in slurmstepd, for one job step on one node. Runs as root up to task_init, which runs as the user in the
// task's process. All input is the user's and may be forged, so all is checked again. A fault is kept and fails the
// task in task_init: a failure in any earlier hook would drain the node.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "frameworks/catalogue.h"
#include "frameworks/families.h"
#include "slurm-plugin/job_request.h"
#include "slurm-plugin/options.h"
#include "slurm-plugin/plugin_args.h"
#include "slurm-plugin/slurm_abi.h"

namespace dl {

class NodeSide {
 public:
  NodeSide(uint32_t step_id, Result<PluginArgs> args) : step_id_(step_id), args_(std::move(args)) {}

  // Takes a value of kOptions[index], from the launch message or from the job's environment. Never fails.
  void option(size_t index, const char* value);
  // Called in init_post_opt, as root: collects values that are still missing, checks them, and gives the request to all
  // tasks as DL_* variables.
  void prepare(spank_t spank);
  // Called in task_init, as the user, after fork: gives the task the environment of its framework. An error fails the
  // task.
  Status start_task(spank_t spank);

 private:
  void collect(spank_t spank);
  void inherit(spank_t spank);
  Status find_framework();
  Status add_families(spank_t spank);
  Result<LearnerContext> context(spank_t spank) const;
  Result<CheckpointSpec> checkpoint(spank_t spank) const;
  bool is_plain_step() const;

  const uint32_t step_id_;
  const Result<PluginArgs> args_;
  JobRequest request_;
  std::array<bool, kOptionCount> seen_{};
  std::array<std::optional<Error>, kOptionCount> faults_;  // errors of the last value of each flag
  std::optional<Error> fault_;                             // the error with which the tasks fail
  bool prepared_ = false;                                  // prepare() ran to its end
  // if set, the plugin gives the variables of the framework's families to the tasks
  std::optional<FrameworkEntry> framework_;
  Environment version_environment_;
};

}  // namespace dl
