// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_cli/watch_script.h"

#include <fmt/core.h>

#include "common/base/shell_word.h"

namespace dl::slurm_cli {

std::string look_function(const std::string& job_id) {
  return fmt::format(R"(look() {{
  said=$(squeue --noheader --states=all --jobs={} --Format=State:20,RestartCnt:12 2>&1)
  set -- $said
  state=$1 restarts=$2
  case $said in
    *"Invalid job id"* | "") state=GONE ;;
    [A-Z]*) ;;
    *) state= ;;
  esac
}}
)",
                     shell_word(job_id));
}

}  // namespace dl::slurm_cli
