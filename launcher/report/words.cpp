// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/words.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/local_time.h"

namespace dl::report {

std::string when(int64_t time_ms) {
  return time_ms == 0 ? "" : format_local_time(static_cast<std::time_t>(time_ms / 1000), "%Y-%m-%d %H:%M:%S");
}

std::string zone_of(int64_t time_ms) {
  const auto seconds = static_cast<std::time_t>(time_ms / 1000);
  return format_local_time(seconds, "%Z") + " (UTC" + format_local_time(seconds, "%z") + ")";
}

std::string number_or_none(int64_t number) {
  return number < 0 ? "" : std::to_string(number);
}

std::string plain_line(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (const size_t over = line.rfind('\r'); over != std::string_view::npos) line.remove_prefix(over + 1);
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\t') {
      text.append(4, ' ');
    } else if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      // Up to the letter that ends the sequence.
      for (i += 2; i < line.size() && (line[i] < '@' || line[i] > '~'); ++i) {
      }
    } else {
      text += line[i];
    }
  }
  return text;
}

}  // namespace dl::report
