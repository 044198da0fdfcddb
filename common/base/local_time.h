// SPDX-License-Identifier: Apache-2.0
// Writes times as people read them. (fmt's own header for this adds a second to each file's compilation.)
#pragma once

#include <cstdint>
#include <ctime>
#include <string>

namespace dl {

// `unix_s` in the local time zone, in a format of strftime(3) such as "%Y-%m-%d %H:%M:%S". "?" for a time that cannot
// be represented.
std::string format_local_time(std::time_t unix_s, const char* format) __attribute__((format(__strftime__, 2, 0)));

// How long something lasts, or how long ago it was: "2m10s", "3h05m", "4d02h", in two units at most; less than 0 is 0.
std::string age_text(int64_t milliseconds);

}  // namespace dl
