// SPDX-License-Identifier: Apache-2.0
// What lies below a folder of the user's: its size, and its removal. No link is ever followed, and no other file system
// entered: each folder is opened by its name within the one above it.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace dl::ctl {

struct TreeFacts {
  int64_t bytes = 0;        // on the disk
  int64_t files = 0;        // links and folders are none
  int64_t newest_s = 0;     // when one of them was written last, since the epoch
  bool checkpoint = false;  // a checkpoint directory lies in it
  bool foreign = false;     // something in it is another user's, or on another file system
  std::string results;      // a file in its folder results/, by name; empty: none
};

// kNotFound, kIo; kInvalid if it is no folder but, for one, a link.
Result<TreeFacts> look_at_tree(const std::string& path);

// Removes the folder and what is in it. Stops at the first error, and what is left stays. kInvalid as above.
Status remove_tree(const std::string& path);

}  // namespace dl::ctl
