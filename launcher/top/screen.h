// SPDX-License-Identifier: Apache-2.0
// A picture of the whole terminal as lines of styled text, and the bytes that draw it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dl::top {

enum class Style { kPlain, kBold, kDim, kReverse, kGood, kWarning, kBad };

struct Span {
  std::string text;  // without control characters
  Style style = Style::kPlain;
};
using Line = std::vector<Span>;
inline bool operator==(const Span& a, const Span& b) {
  return a.text == b.text && a.style == b.style;
}

struct Frame {
  int columns = 80, rows = 24;
  std::vector<Line> lines;  // as many as rows, or fewer; none wider than columns
};

// What stands there, without styles and without blanks at the ends of lines; each line with a newline.
std::string plain_text(const Frame& frame);

// The bytes that turn `before` into `now`: only lines that differ are drawn. `whole`: nothing is known of what stands
// on the terminal. Without `colour` only bold and reverse are used, which are no colours.
std::string drawing(const Frame& before, const Frame& now, bool colour, bool whole);

// How many bytes of a drawing can be written at once, `most` at most, so that what is written next may be something
// else: neither a sequence nor a character is cut. At least 1, unless the drawing is empty. most: 4 at least.
size_t piece_of(std::string_view drawing, size_t most);

// What a terminal is told at the beginning, and at the end: the alternate screen, on which nothing of the screen before
// is lost; no cursor; lines that are too long are cut, and do not shift others.
extern const char* const kEnterScreen;
extern const char* const kLeaveScreen;

}  // namespace dl::top
