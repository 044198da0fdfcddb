// SPDX-License-Identifier: Apache-2.0
// spank_dl.so within sbatch, salloc, scrontab (allocator context) and srun (local context). It runs as the user, on a
// login node or inside a job. A failure here ends the command with status 1 and a message, and nothing is submitted.
#pragma once

#include <array>
#include <string>

#include "common/base/result.h"
#include "slurm-plugin/job_request.h"
#include "slurm-plugin/options.h"
#include "slurm-plugin/plugin_args.h"
#include "slurm-plugin/slurm_abi.h"

namespace dl {

class SubmitSide {
 public:
  // `allocator`: sbatch, salloc or scrontab; false: srun.
  SubmitSide(bool allocator, PluginArgs args) : allocator_(allocator), args_(std::move(args)) {}

  // To be called before Slurm reads its options. It copies DL_* presets into the variables by which Slurm presets
  // options, so that they reach slurmctld and the nodes like flags, whatever --export says. If the submission comes
  // from within a job, it removes the values that this job has passed on.
  void prepare_environment();

  // Takes a value of kOptions[index]; it may be called several times, the last one counts.
  Status option(size_t index, const char* value);

  // To be called after all options: checks the request as a whole, and puts it into the environment of salloc's shell.
  Status finish(spank_t spank);

 private:
  void adopt_task_count();
  Status check_framework() const;
  Status check_image() const;
  Status check_places_here() const;
  Status check_memory() const;

  const bool allocator_;
  const PluginArgs args_;
  JobRequest request_;
  std::array<std::string, kOptionCount> presets_;  // values that came from DL_* variables
};

}  // namespace dl
