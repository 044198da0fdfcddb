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
  std::string local_id;                                     // the job id without Slurm, "local-..."
  std::string typed;                                        // the whole command line, to be shown to people
  std::vector<std::pair<std::string, std::string>> sbatch;  // sbatch options and values, for --submit
  std::vector<std::string> command;                         // what learners run: the words after the options
};

// Either a command to carry out; or none, and the exit status, after --help, --version or a mistake has been answered.
struct ParsedArguments {
  std::optional<RunCommand> command;
  int exit_status = 0;
};
ParsedArguments parse_arguments(int argc, char** argv);

}  // namespace dl
