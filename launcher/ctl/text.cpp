// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "common/base/local_time.h"

namespace dl::ctl {
namespace {

// In characters, for UTF-8.
size_t width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - width(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

int64_t now_ms() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

std::string clock_text(int64_t time_ms, int64_t now) {
  const time_t seconds = static_cast<time_t>(time_ms / 1000);
  const time_t present = static_cast<time_t>(now / 1000);
  struct tm then = {};
  struct tm today = {};
  ::localtime_r(&seconds, &then);
  ::localtime_r(&present, &today);
  const bool same_day = then.tm_year == today.tm_year && then.tm_yday == today.tm_yday;
  return format_local_time(seconds, same_day ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S");
}

std::string age_text(int64_t milliseconds) {
  const int64_t seconds = std::max<int64_t>(milliseconds, 0) / 1000;
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  if (seconds < 86400) return fmt::format("{}h{:02}m", seconds / 3600, seconds % 3600 / 60);
  return fmt::format("{}d{:02}h", seconds / 86400, seconds % 86400 / 3600);
}

}  // namespace dl::ctl
