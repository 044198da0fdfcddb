// SPDX-License-Identifier: Apache-2.0
#include "common/base/local_time.h"

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

}  // namespace dl
