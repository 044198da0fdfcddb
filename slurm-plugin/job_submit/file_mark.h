// SPDX-License-Identifier: Apache-2.0
// Tells whether a file has changed.
#pragma once

#include <sys/types.h>

#include <string>

namespace dl {

// A text that changes when the file is edited in place, replaced, removed or created. *changed_s (may be null): when
// that happened last, Unix time, also where the new file has an older time of its own (rsync -a, a link to another
// file); 0 if there is no such file.
std::string file_mark(const std::string& path, int64_t* changed_s = nullptr);

}  // namespace dl
