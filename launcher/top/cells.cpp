// SPDX-License-Identifier: Apache-2.0
#include "launcher/top/cells.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "common/base/letters.h"
#include "common/base/parse.h"

namespace dl::top {
namespace {

struct Places {
  uint32_t first, last;
};
// The common ones of Unicode's East Asian Width W and F, and pictures.
constexpr Places kWide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x33ff},  {0x3400, 0x4dbf},
                            {0x4e00, 0x9fff},   {0xa000, 0xa4cf},   {0xac00, 0xd7a3},  {0xf900, 0xfaff},
                            {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                            {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
constexpr Places kNone[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
                            {0x93c, 0x93c},   {0x94d, 0x94d},   {0xe31, 0xe31},   {0xe34, 0xe3a},   {0xe47, 0xe4e},
                            {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x20d0, 0x20ff}, {0xfe20, 0xfe2f}, {0x1f3fb, 0x1f3ff}};

template <size_t N>
bool within(uint32_t code, const Places (&ranges)[N]) {
  return std::any_of(ranges, ranges + N, [&](const Places& one) { return code >= one.first && code <= one.last; });
}

// The bytes of the character that the text begins with, and its places. A byte that is no character counts as one.
size_t character_at(std::string_view text, size_t* places) {
  uint32_t code = 0;
  const size_t bytes = utf8_at(text, &code);
  *places = bytes == 0 ? 1 : within(code, kNone) ? 0 : within(code, kWide) ? 2 : 1;
  return std::max<size_t>(bytes, 1);
}

}  // namespace

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    size_t places = 0;
    text.remove_prefix(character_at(text, &places));
    columns += places;
  }
  return columns;
}

std::string cut(std::string_view text, size_t columns, std::string_view end) {
  if (columns_of(text) <= columns) return std::string(text);
  const size_t ends = columns_of(end);
  if (columns <= ends) return columns == ends ? std::string(end) : std::string();
  size_t used = 0, bytes = 0;
  while (bytes < text.size()) {
    size_t places = 0;
    const size_t size = character_at(text.substr(bytes), &places);
    if (used + places > columns - ends) break;
    used += places;
    bytes += size;
  }
  return std::string(text.substr(0, bytes)).append(end);
}

std::string fitted(std::string_view text, size_t columns, std::string_view end, bool right) {
  std::string cell = cut(text, columns, end);
  const std::string blanks(columns - std::min(columns, columns_of(cell)), ' ');
  return right ? blanks + cell : cell + blanks;
}

std::string harmless(std::string_view line, size_t most) {
  constexpr size_t kMostRead = 64 << 10;
  if (line.size() > kMostRead) line = line.substr(0, kMostRead);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (const size_t over = line.rfind('\r'); over != std::string_view::npos) line.remove_prefix(over + 1);
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      const size_t last = line.find_first_not_of("0123456789;", i + 2);
      if (last != std::string_view::npos && line[last] == 'm') {  // a colour
        i = last;
        continue;
      }
    }
    plain += line[i] == '\t' ? ' ' : line[i];
  }
  return printable(plain, most);
}

std::string time_text(std::optional<int64_t> ms) {
  if (!ms) return "-";
  const int64_t seconds = std::max<int64_t>(*ms, 0) / 1000;
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 86400) return fmt::format("{}h{:02}m", seconds / 3600, seconds % 3600 / 60);
  return fmt::format("{}d{:02}h", seconds / 86400, seconds % 86400 / 3600);
}

std::string number_text(std::optional<double> value) {
  if (!value) return "-";
  if (!std::isfinite(*value)) return fmt::format("{}", *value);
  const double size = std::fabs(*value);
  if (size == 0) return "0";
  if (size < 1e-3 || size >= 1e6) return fmt::format("{:.1e}", *value);
  return size >= 1000 ? fmt::format("{:.0f}", *value) : fmt::format("{:.3g}", *value);
}

std::string cpus_text(std::optional<double> cpus) {
  return cpus && std::fabs(*cpus) < 100 ? fmt::format("{:.2f}", *cpus) : number_text(cpus);
}

}  // namespace dl::top
