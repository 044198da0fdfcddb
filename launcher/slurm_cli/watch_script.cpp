// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_cli/watch_script.h"

#include <fmt/core.h>

#include "common/base/shell_word.h"

namespace dl::slurm_cli {

std::string look_function(const std::string& job_id) {
  const std::string id = shell_word(job_id);
  // squeue prints nothing of an element that is not in its array any more, and of a job that a setting hides.
  return fmt::format(R"(look() {{
  said=$(
    unset $(env | sed -n 's/^\(SQUEUE_[A-Za-z0-9_]*\)=.*/\1/p')
    squeue --noheader --states=all --jobs={0} --Format=State:20,RestartCnt:12 2>&1
  )
  set -- $said
  state=$1 restarts=$2
  case $said in
    *"Invalid job id"*) state=GONE ;;
    [A-Z]*) ;;
    *) state= ;;
  esac
  [ -n "$said" ] && return
  said=$(scontrol show job {0} 2>&1)
  case $said in
    JobId=*) ;;
    *"Invalid job id"* | *"Job "{0}" not found"*) state=GONE ;;
  esac
}}
)",
                     id);
}

}  // namespace dl::slurm_cli
