// SPDX-License-Identifier: Apache-2.0
// Small files that others read while we write them: a reader sees either the old or the new content, never a part.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace dl {

// Writes `content` to a new file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder. On error the
// old file is untouched and the new one removed. `mode` is used as given (the umask is not applied).
Status write_file_atomically(const std::string& path, const std::string& content, mode_t mode = 0644);

// As write_file_atomically(), but without any fsync: for content that is useless after a crash of this machine (where
// dlrun listens, what it started). After such a crash the old file, the new one or none may be there.
Status replace_file(const std::string& path, const std::string& content, mode_t mode = 0644);

// Writes all of it at the file's own position. path: for the message.
Status write_all(int fd, std::string_view data, const std::string& path);

// Reads a regular file whole. A file of more than max_bytes, or one of another kind, gives kInvalid.
Result<std::string> read_small_file(const std::string& path, size_t max_bytes);

// Makes a directory and its missing parents, as mkdir -p does; new ones have `mode` less the umask. An existing
// directory is success.
Status make_directories(const std::string& path, mode_t mode = 0777);

}  // namespace dl
