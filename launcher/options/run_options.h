// SPDX-License-Identifier: Apache-2.0
// dlrun's command line.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/site/site_config.h"
#include "launcher/plan/request.h"

namespace dl {

struct RunCommand {
  plan::RequestOptions request;
  std::optional<std::string> job_dir;         // --job-dir
  std::optional<std::chrono::seconds> grace;  // --grace
  bool dry_run = false, json = false, quiet = false;
  bool submit = false;                                      // --submit
  bool debug = false;                                       // --debug
  std::string local_id;                                     // the job's id without Slurm
  std::string typed;                                        // the whole command line, for people
  std::vector<std::pair<std::string, std::string>> sbatch;  // options of sbatch and their values, for --submit
  std::vector<std::string> command;                         // after the options
};

// Either a command to carry out, or, for --help, --version and mistakes, the exit status with everything printed.
struct ParsedArguments {
  std::optional<RunCommand> command;
  int exit_status = 0;
};
ParsedArguments parse_arguments(int argc, char** argv);

}  // namespace dl
