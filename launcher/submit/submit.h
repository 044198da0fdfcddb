// SPDX-License-Identifier: Apache-2.0
// Writes a batch script and gives it to sbatch. Blocks for as long as sbatch takes.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl::submit {

struct Submitted {
  std::string job_id;   // from sbatch --parsable, without the cluster's name
  std::string message;  // what sbatch and plugins wrote to standard error
};

struct Script {
  std::string path;
  bool created = false;  // false: a file with this text existed already
};
// Writes `text` to FOLDER/NAME.sbatch, or if a file with another content exists there, to NAME-2.sbatch and so on:
// nothing is overwritten. Errors of the file system; kIo if there are too many such files.
Result<Script> write_script(const std::string& folder, const std::string& name, const std::string& text);

// kNotFound: no sbatch; kUnsupported: sbatch does not know the --dl-* flags; kInvalid: it refused the job, with its
// error text.
Result<Submitted> submit_script(const std::string& path);

// Whether there is a Slurm to submit to: sbatch is in PATH.
bool has_sbatch();

}  // namespace dl::submit
