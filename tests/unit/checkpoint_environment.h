// SPDX-License-Identifier: Apache-2.0
// The environment that libdlckpt sees in a test.
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

namespace dl::ckpt::test {

// Sets variables for one test; all that libdlckpt looks at are unset before and after.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, std::string>> values) {
    clear();
    for (const auto& [name, value] : values) setenv(name, value.c_str(), 1);
  }
  ~Environment() { clear(); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static void clear() {
    for (const char* name : {"DL_CHECKPOINT_DIR",    "DL_CHECKPOINT",
                             "CHECKPOINT_DIR",       "DL_RANK",
                             "DL_WORLD_SIZE",        "RANK",
                             "WORLD_SIZE",           "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
                             "SLURM_NTASKS",         "SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS", "DL_RUN_ID",
                             "TORCHELASTIC_RUN_ID",  "MASTER_ADDR",
                             "MASTER_PORT",          "SLURM_JOB_ID",
                             "SLURM_STEP_ID",        "SLURM_RESTART_COUNT",
                             "DL_PROGRESS",          "DL_CHECKPOINT_LEASE",
                             "DL_CHECKPOINT_MODE"})
      unsetenv(name);
  }
};

}  // namespace dl::ckpt::test
