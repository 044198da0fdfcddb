// SPDX-License-Identifier: Apache-2.0
// Tells whether a file has changed.
#pragma once

#include <sys/types.h>

#include <string>

namespace dl {

// A text that changes when the file is edited in place, replaced, removed or created. *changed_s (may be null): when
// its content changed last, Unix time; 0 if there is no such file.
std::string file_mark(const std::string& path, int64_t* changed_s = nullptr);

}  // namespace dl
