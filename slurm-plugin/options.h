// SPDX-License-Identifier: Apache-2.0
// The table of --dl-* flags, one row each. All code that needs the flags goes through this table: registration in
// sbatch, srun, salloc and on the node, --help, presets from the environment, job_submit, the tests. Includes nothing
// of Slurm's.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "slurm-plugin/job_request.h"

namespace dl {

struct Option {
  const char* name;  // "dl-framework"
  const char* form;  // what --help shows after the '='
  const char* help;  // "[dl] ...", as --help shows it
  const char* env;   // DL_FRAMEWORK: the variable that presets the flag; the job gets it, too
  Status (*read)(std::string_view value, JobRequest* into);  // parses a value; the flag's name is not in its message
};

constexpr size_t kOptionCount = 15;
extern const std::array<Option, kOptionCount> kOptions;

// Reads one value into the request; a second value for the same flag replaces the first, a bad one changes nothing.
// The message begins with `called`, or with "--NAME" if that is empty: "--dl-gpus: 'x' is not ...; allowed: ...".
Status read_option(const Option& option, std::string_view value, JobRequest* request, const std::string& called = "");

// The name under which Slurm carries the flag, made of the plugin's name ("dl") and the flag's:
// _SLURM_SPANK_OPTION_dl_dl_framework. In a job's own environment it has SLURM_SPANK_ in front.
std::string slurm_option_env(const Option& option);
constexpr const char* kInheritedPrefix = "SLURM_SPANK_";

// Set by spank_dl.so for job_submit_dl.so: "srun" if srun asks, because srun decides the number of tasks itself.
constexpr const char* kClientEnv = "DL_CLIENT";
// Set by job_submit_dl.so in the job's environment, if it asked for a signal before the time limit: "USR2@120".
constexpr const char* kSignalEnv = "DL_SIGNAL";

}  // namespace dl
