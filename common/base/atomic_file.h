// SPDX-License-Identifier: Apache-2.0
// Small files that others read while we write them: either the old or the new content is seen, never a part.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "common/base/result.h"

namespace dl {

// Writes `content` to a new file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder. On error the
// old file is untouched and the new one removed. `mode` is used as given (the umask is not applied).
Status write_file_atomically(const std::string& path, const std::string& content, mode_t mode = 0644);

// The same without any fsync, for content that is useless after a crash of this machine (where dlrun listens, what it
// started). After such a crash the old file, the new one or none may be there.
Status replace_file(const std::string& path, const std::string& content, mode_t mode = 0644);

// The whole of a regular file of at most max_bytes; a larger one gives kInvalid, another kind of file too.
Result<std::string> read_small_file(const std::string& path, size_t max_bytes);

// mkdir -p; folders made have `mode` less the umask. An existing folder is success.
Status make_directories(const std::string& path, mode_t mode = 0777);

}  // namespace dl
