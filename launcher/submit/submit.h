// SPDX-License-Identifier: Apache-2.0
// Writes a batch script and gives it to sbatch. Blocks for as long as sbatch takes.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl::submit {

struct Submitted {
  std::string job_id;   // as sbatch --parsable says it, without the cluster
  std::string message;  // what sbatch and the plugins said besides; lines
};

// Writes `text` to FOLDER/NAME.sbatch; where a file with another content is there, to NAME-2.sbatch and so on: nothing
// is ever overwritten. kIo.
struct Script {
  std::string path;
  bool created = false;  // false: the same text was there already
};
Result<Script> write_script(const std::string& folder, const std::string& name, const std::string& text);

// kNotFound: no sbatch; kUnsupported: sbatch lacks the --dl-* flags that are needed; kInvalid: it refused the job, with
// its words.
Result<Submitted> submit_script(const std::string& path);

// Whether there is a Slurm to submit to: sbatch is in PATH.
bool has_sbatch();

}  // namespace dl::submit
