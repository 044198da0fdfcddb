// SPDX-License-Identifier: Apache-2.0
#include "launcher/top/screen.h"

#include <fmt/core.h>

namespace dl::top {
namespace {

const char* code_of(Style style, bool colour) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "\033[1m";
    case Style::kDim:
      return colour ? "\033[2m" : "";
    case Style::kReverse:
      return "\033[7m";
    case Style::kGood:
      return colour ? "\033[32m" : "";
    case Style::kWarning:
      return colour ? "\033[33m" : "";
    case Style::kBad:
      return colour ? "\033[31m" : "\033[1m";
  }
  return "";
}

}  // namespace

const char* const kEnterScreen = "\033[?1049h\033[?25l\033[?7l\033[0m\033[H\033[2J";
const char* const kLeaveScreen = "\033[0m\033[?7h\033[?25h\033[?1049l";

std::string plain_text(const Frame& frame) {
  std::string text;
  for (const Line& line : frame.lines) {
    std::string one;
    for (const Span& span : line) one += span.text;
    one.erase(one.find_last_not_of(' ') + 1);
    text += one + "\n";
  }
  return text;
}

std::string drawing(const Frame& before, const Frame& now, bool colour, bool whole) {
  std::string bytes;
  if (whole) bytes += "\033[0m\033[H\033[2J";
  const size_t most = now.rows > 0 ? static_cast<size_t>(now.rows) : 0;
  for (size_t i = 0; i < most; ++i) {
    static const Line kNothing;
    const Line& was = !whole && i < before.lines.size() ? before.lines[i] : kNothing;
    const Line& line = i < now.lines.size() ? now.lines[i] : kNothing;
    if (was == line) continue;
    // Erased first: behind a line that is as wide as the terminal the cursor would stand on its last character.
    bytes += fmt::format("\033[{};1H\033[2K", i + 1);
    for (const Span& span : line) {
      const char* code = code_of(span.style, colour);
      bytes += code;
      bytes += span.text;
      if (*code != '\0') bytes += "\033[0m";
    }
  }
  return bytes;
}

size_t piece_of(std::string_view drawing, size_t most) {
  if (drawing.size() <= most) return drawing.size();
  const size_t sequence = drawing.rfind('\033', most);
  if (sequence != std::string_view::npos && sequence > 0) return sequence;
  // A text that is longer: the bytes of a character behind its first are 10xxxxxx.
  size_t end = most;
  while (end > 1 && (static_cast<unsigned char>(drawing[end]) & 0xC0U) == 0x80) --end;
  return end;
}

}  // namespace dl::top
