// SPDX-License-Identifier: Apache-2.0
// dlctl data prefetch: submits a job without GPUs that fetches data into the cache that all nodes see, so that no GPU
// is held while bytes move. A job that waits can be made to wait for it, too.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/cli/command_line.h"

namespace dl::ctl {

struct PrefetchOptions {
  std::string source;               // as --dl-data takes it
  std::string job;                  // a job that is to begin after it; empty: none
  std::vector<std::string> sbatch;  // further options of sbatch
  bool dry_run = false;
};
void add_prefetch_options(CommandLine* line, PrefetchOptions* options);
// Submits the job and prints its id. Errors of sbatch and scontrol.
Status run_prefetch(const PrefetchOptions& options);

// The path of dl-data beside this program. kNotFound.
Result<std::string> data_program();

// The batch script: it fetches the sources in `sources`, a file, into `cache`, and marks them as fetched in `mark`.
// Where a job waits for it, the script ends once that job is gone. Pure.
struct PrefetchScript {
  std::string program, sources, cache, dest, mark, job;
};
std::string prefetch_script(const PrefetchScript& of);

}  // namespace dl::ctl
