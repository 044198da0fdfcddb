// SPDX-License-Identifier: Apache-2.0
// Opens files of a job directory that may have been tampered with: its user may have put links, pipes, devices or other
// people's files there.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::record {

enum class Kind { kFile, kFolder };

// Opens `relative` ("logs/attempt-1/learner-0.log") below the folder `root` for reading. No link below root is
// followed; only a regular file or a folder is opened, without waiting (a pipe cannot block it); every part of the path
// must belong to the owner of root. kNotFound if it does not exist, kDenied if it may not be read or belongs to another
// user, kInvalid if it is not of `kind`; the message names the path.
Result<UniqueFd> open_below(const std::string& root, const std::string& relative, Kind kind);

// The content of such a file; kInvalid if it is larger than max_bytes.
Result<std::string> read_below(const std::string& root, const std::string& relative, size_t max_bytes);

}  // namespace dl::record
