// SPDX-License-Identifier: Apache-2.0
// The size of a user's folder with all that is in it, and its removal. Links are never followed and other file systems
// are never entered: each folder is opened by its name within the one above it (openat, O_NOFOLLOW).
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace dl::ctl {

struct TreeFacts {
  int64_t bytes = 0;        // allocated on the disk
  int64_t files = 0;        // regular files
  int64_t newest_s = 0;     // newest modification time of these files, Unix time
  bool checkpoint = false;  // a checkpoint directory lies in it
  bool foreign = false;     // it holds something of another user, or of another file system
  std::string results;      // the name of one file below results/; empty: there is none
};

// kNotFound, kIo; kInvalid if it is not a folder (a link to a folder is refused), or is nested deeper than 64 folders.
Result<TreeFacts> look_at_tree(const std::string& path);

// Removes the folder and what is in it. Stops at the first error and leaves the rest. Errors as above; kInvalid also at
// another file system.
Status remove_tree(const std::string& path);

}  // namespace dl::ctl
