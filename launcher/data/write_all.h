// SPDX-License-Identifier: Apache-2.0
// Small steps on files of this node's disk; their errors are those of local_error().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace dl::data {

// Writes all of it at the file's own position. path: for the message.
Status write_all(int fd, std::string_view data, const std::string& path);
// Sets the time of the last change.
Status set_time(int fd, int64_t mtime_ns, const std::string& path);
// Makes what was written to this file system durable, all of it at once.
Status sync_file_system(const std::string& folder);
// Makes a folder's entries durable.
Status sync_folder(const std::string& folder);
// Removes a file, or a folder with all in it, whatever the modes; it need not be there. Follows no links.
Status remove_tree(const std::string& path);

}  // namespace dl::data
