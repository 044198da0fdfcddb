// SPDX-License-Identifier: Apache-2.0
// Reads one job as `scontrol show job -o [-d]` prints it. Pure.
//
// scontrol quotes nothing: a name, comment or path of the user's may hold blanks and even "Key=". Fields that only
// Slurm writes stand at fixed neighbours, so get() cuts a value where the next *known* key begins, and a key that a
// user's text repeats is taken where Slurm puts it: the user's texts JobName (first) and Comment, Command, WorkDir,
// Std* (last) are found from their side.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/common/result.h"

namespace dl::plan {

struct ScontrolJob {
  std::string job_id;  // "12"; "12_3" arrays keep their JobId
  std::string name;
  std::string user;  // "root"
  int64_t uid = -1;
  std::string state;    // "PENDING", "RUNNING", "COMPLETING", ...
  std::string reason;   // "None", "JobHeldUser", "QOSGrpGRES", ...
  std::string comment;  // as it stands there, may be empty
  std::string work_dir;
  int restarts = 0;
  int priority = -1;                                               // 0 = held
  std::optional<int64_t> submit_time_s, start_time_s, end_time_s;  // Unix time; absent: "Unknown", "N/A"
  // From -d: GPUs on each node that the text names.
  std::map<std::string, int> gpus_by_node;
};

// One line of output. kInvalid if it does not begin with "JobId=". Times are in the local time zone, as scontrol
// prints.
Result<ScontrolJob> parse_scontrol_job(std::string_view line);

}  // namespace dl::plan
