// SPDX-License-Identifier: Apache-2.0
// Writes times as people read them. (fmt's own header for this adds a second to each file's compilation.)
#pragma once

#include <ctime>
#include <string>

namespace dl {

// `unix_s` in the local time zone, in a format of strftime(3) such as "%Y-%m-%d %H:%M:%S". "?" for a time that cannot
// be represented.
std::string format_local_time(std::time_t unix_s, const char* format) __attribute__((format(__strftime__, 2, 0)));

}  // namespace dl
