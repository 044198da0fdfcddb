// SPDX-License-Identifier: Apache-2.0
// Moments as people read them. (fmt's own header for this adds a second to each file's compilation.)
#pragma once

#include <ctime>
#include <string>

namespace dl {

// `unix_s` in the local time zone, as strftime(3) writes it: "%Y-%m-%d %H:%M:%S". "?" for a moment out of its range.
std::string format_local_time(std::time_t unix_s, const char* format) __attribute__((format(__strftime__, 2, 0)));

}  // namespace dl
