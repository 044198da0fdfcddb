// SPDX-License-Identifier: Apache-2.0
#include "common/base/local_time.h"

#include <fmt/core.h>

#include <algorithm>

namespace dl {

std::string format_local_time(std::time_t unix_s, const char* format) {
  std::tm parts{};
  char text[64];
  if (::localtime_r(&unix_s, &parts) == nullptr) return "?";
// The format is not a literal here. The attribute in the header makes the compiler check it where it is one: at the
// callers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const size_t size = std::strftime(text, sizeof text, format, &parts);
#pragma GCC diagnostic pop
  return size == 0 ? "?" : text;
}

std::string age_text(int64_t milliseconds) {
  const int64_t seconds = std::max<int64_t>(milliseconds, 0) / 1000;
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  if (seconds < 86400) return fmt::format("{}h{:02}m", seconds / 3600, seconds % 3600 / 60);
  return fmt::format("{}d{:02}h", seconds / 86400, seconds % 86400 / 3600);
}

}  // namespace dl
