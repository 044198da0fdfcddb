// SPDX-License-Identifier: Apache-2.0
// Writes files that the user of a program names on its command line.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl::ctl {

// Replaces the file as a whole, or makes it, with the mode that new files of this process have. A link to a file stays
// a link. Refuses what is no regular file, because root would otherwise replace a device such as /dev/null. kIo: one
// sentence for the user, which names `path` and never a temporary file. Not for several threads: it reads the umask.
Status write_output_file(const std::string& path, const std::string& content);

}  // namespace dl::ctl
