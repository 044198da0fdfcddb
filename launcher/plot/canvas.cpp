// SPDX-License-Identifier: Apache-2.0
#include "launcher/plot/canvas.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace dl::plot {
namespace {

constexpr std::string_view kLetters = "*+ox#@%=";
static_assert(kLetters.size() == kLetterCount);

// By bits: upper left 1, upper right 2, lower left 4, lower right 8.
constexpr std::array<const char*, 16> kQuadrants = {"",  "▘", "▝", "▀", "▖", "▌", "▞", "▛",
                                                    "▗", "▚", "▐", "▜", "▄", "▙", "▟", "█"};

// The bit of a dot in Unicode's block of braille patterns, where the fourth row was added later.
constexpr unsigned kBraille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

// U+2800 and the bits, as UTF-8.
std::string braille(unsigned bits) {
  return {static_cast<char>(0xe2), static_cast<char>(0xa0 + (bits >> 6)), static_cast<char>(0x80 + (bits & 0x3f))};
}

}  // namespace

char letter_of(int curve) {
  return kLetters[static_cast<size_t>(curve % kLetterCount)];
}

Canvas::Canvas(int columns, int rows, Marks marks)
    : columns_(std::max(1, columns)), rows_(std::max(1, rows)), marks_(marks) {
  if (marks != Marks::kLetters) across_ = 2;
  if (marks == Marks::kBlocks) down_ = 2;
  if (marks == Marks::kBraille) down_ = 4;
  cells_.resize(static_cast<size_t>(columns_) * static_cast<size_t>(rows_));
}

void Canvas::dot(int x, int y, int curve) {
  Drawn& drawn =
      cells_[static_cast<size_t>(y / down_) * static_cast<size_t>(columns_) + static_cast<size_t>(x / across_)];
  const int column = x % across_, row = y % down_;
  drawn.dots |= marks_ == Marks::kBraille ? kBraille[row][column] : 1U << (row * 2 + column);
  drawn.curve = curve;
}

void Canvas::line(int x0, int y0, int x1, int y1, int curve) {
  // Bresenham's.
  const int across = std::abs(x1 - x0), down = -std::abs(y1 - y0);
  const int right = x0 < x1 ? 1 : -1, below = y0 < y1 ? 1 : -1;
  int error = across + down;
  for (;;) {
    dot(x0, y0, curve);
    if (x0 == x1 && y0 == y1) return;
    const int twice = 2 * error;
    if (twice >= down) {
      error += down;
      x0 += right;
    }
    if (twice <= across) {
      error += across;
      y0 += below;
    }
  }
}

void Canvas::spot(int x, int y, int curve) {
  dot(x, y, curve);
  if (across_ == 1) return;
  // The others of a square within the same character.
  const int beside = x % 2 == 0 ? x + 1 : x - 1, other = y % 2 == 0 ? y + 1 : y - 1;
  dot(beside, y, curve);
  dot(x, other, curve);
  dot(beside, other, curve);
}

Canvas::Cell Canvas::cell(int column, int row) const {
  const Drawn& drawn = cells_[static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column)];
  if (drawn.curve < 0) return {};
  if (marks_ == Marks::kLetters) return {std::string(1, letter_of(drawn.curve)), drawn.curve};
  return {marks_ == Marks::kBlocks ? kQuadrants[drawn.dots] : braille(drawn.dots), drawn.curve};
}

}  // namespace dl::plot
