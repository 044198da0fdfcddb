// SPDX-License-Identifier: Apache-2.0
// Files of a job directory for whoever is not sure of it: a user may have put links, pipes and devices there, or other
// people's files.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::record {

enum class Kind { kFile, kFolder };

// Opens `relative` ("logs/attempt-1/learner-0.log") below the folder `root` for reading. No link is followed below
// root, nothing but a regular file or a folder is opened (and that without waiting), and all of it must belong to the
// owner of root. kNotFound if it is not there, kDenied if it may not be read or is another user's, kInvalid for what
// is no such thing; the message names what is in the way.
Result<UniqueFd> open_below(const std::string& root, const std::string& relative, Kind kind);

// The whole of such a file; kInvalid if it is larger.
Result<std::string> read_below(const std::string& root, const std::string& relative, size_t max_bytes);

}  // namespace dl::record
