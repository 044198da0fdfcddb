// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "common/base/local_time.h"

namespace dl::ctl {
namespace {

// The width in characters of a text in UTF-8.
size_t width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

constexpr size_t kLongestColour = 24;  // length of an escape sequence that sets colours

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

std::string terminal_text(const std::string& line) {
  // A progress bar rewrites its line after each "\r". Only the last version is kept, as on a terminal.
  size_t end = line.find_last_not_of('\r');
  end = end == std::string::npos ? 0 : end + 1;
  const size_t over = end == 0 ? std::string::npos : line.find_last_of('\r', end - 1);
  std::string text;
  for (size_t i = over == std::string::npos ? 0 : over + 1; i < end; ++i) {
    const auto c = static_cast<unsigned char>(line[i]);
    if (c == 0x1b) {
      size_t last = i + 1;
      if (last < end && line[last] == '[')
        for (++last; last < end && (line[last] == ';' || (line[last] >= '0' && line[last] <= '9'));) ++last;
      if (last < end && line[last] == 'm' && last > i + 1 && last - i <= kLongestColour) {
        text.append(line, i, last + 1 - i);
        i = last;
        continue;
      }
    }
    // C1 controls are escaped, too; in UTF-8 they are 0xc2 0x80 to 0xc2 0x9f.
    const bool c1 = c == 0xc2 && i + 1 < end && static_cast<unsigned char>(line[i + 1]) >= 0x80 &&
                    static_cast<unsigned char>(line[i + 1]) < 0xa0;
    if (c != '\t' && (c < 0x20 || c == 0x7f || c1))
      text += fmt::format("\\x{:02x}", c1 ? static_cast<unsigned char>(line[++i]) : c);
    else
      text += line[i];
  }
  if (text.find('\x1b') != std::string::npos) text += "\x1b[0m";
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

}  // namespace dl::ctl
