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

  // A value of kOptions[index], from the launch message or the job's environment. Never fails.
  void option(size_t index, const char* value);
  // init_post_opt, as root: collects what is missing, checks, and gives the request to all tasks as DL_* variables.
  void prepare(spank_t spank);
  // task_init, as the user, after fork: gives the task its framework's environment. An error fails the task.
  Status start_task(spank_t spank);

 private:
  void collect(spank_t spank);
  void inherit(spank_t spank);
  Status find_framework();
  Status add_families(spank_t spank);
  Result<LearnerContext> context(spank_t spank) const;
  bool is_plain_step() const;

  const uint32_t step_id_;
  const Result<PluginArgs> args_;
  JobRequest request_;
  std::array<bool, kOptionCount> seen_{};
  std::array<std::optional<Error>, kOptionCount> faults_;  // of the last value of each flag
  std::optional<Error> fault_;                             // what fails the tasks
  bool prepared_ = false;                                  // prepare() came to its end
  std::optional<FrameworkEntry> framework_;                // set: the plugin gives its families to the tasks
  Environment version_environment_;
};

}  // namespace dl
