// SPDX-License-Identifier: Apache-2.0
// Environment families: from where a learner stands in its job to the variables its framework reads. One row of the
// table in families.cpp per family. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/common/result.h"

namespace dl {

// Where one learner stands. All indices are 0-based.
struct LearnerContext {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;
  int node_rank = 0, num_nodes = 1;
  std::string master_addr = "127.0.0.1";  // numeric address of the host of rank 0
  int master_port = 0;
  int gpus_per_learner = 0;
  int cpus_per_learner = 0;  // 0 = unknown
  std::string job_id;        // Slurm's, or "local-..." without Slurm
  std::string job_name;
  std::string run_id;  // env::kRunId
  int attempt = 1, restarts = 0, max_restarts = 0;
  std::string job_dir;               // absolute
  std::string log_dir;               // absolute
  std::string work_dir;              // where the command is run
  std::string checkpoint_dir;        // absolute, or empty
  std::string data_dir, result_dir;  // absolute; default to work_dir and job_dir/results
  std::string command;               // the command line, joined by blanks
};

using Environment = std::map<std::string, std::string>;

// Adds the variables of `family` that are not in `env` yet ("what the user set stays"). Only those that tell a learner
// who it is (RANK, WORLD_SIZE, LOCAL_RANK, LEARNER_ID, SLURM_PROCID, all of "dl", ...) do replace: inherited from a
// shell they would be wrong for all learners but one. A variable whose value is unknown (no checkpoint directory, no
// port yet) is left unset. Families: "dl" (always added first by the caller), "ffdl", "torch", "mpi", "slurm"
// (SLURM_PROCID and friends per learner; nothing if job_id is not a Slurm job's). kNotFound with the known names for
// any other.
Status add_family(const std::string& family, const LearnerContext& context, Environment* env);
std::vector<std::string> family_names();

// Appends the folder of our Python package (PKGDATADIR/python, as configured) to PYTHONPATH, so that `import dlckpt`
// works in whichever interpreter a learner uses; behind what the user has there, and only once. For whoever starts
// learners.
void add_python_path(Environment* env);

}  // namespace dl
