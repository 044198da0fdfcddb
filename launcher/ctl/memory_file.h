// SPDX-License-Identifier: Apache-2.0
// A text as a file that another program reads as its standard input.
#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::ctl {

// A file in memory that holds the text and is read from its beginning; it has no name, and is closed at exec. Unlike a
// pipe it takes as many bytes as are written. Errors of memfd_create(2) and write(2).
Result<UniqueFd> memory_file(std::string_view text);

}  // namespace dl::ctl
