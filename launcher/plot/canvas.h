// SPDX-License-Identifier: Apache-2.0
// A field of characters on which curves are drawn with dots that are smaller than a character, where the terminal's
// letters allow it. Pure.
#pragma once

#include <string>
#include <vector>

namespace dl::plot {

enum class Marks {
  kBraille,  // 2 x 4 dots a character
  kBlocks,   // 2 x 2
  kLetters,  // one, which is another letter for each curve; ASCII
};

// The letter of a curve, of which there are kLetterCount different ones.
constexpr int kLetterCount = 8;
char letter_of(int curve);

class Canvas {
 public:
  // Sizes in characters, at least 1.
  Canvas(int columns, int rows, Marks marks);

  // Sizes in dots. Dot 0, 0 is in the upper left.
  int width() const { return columns_ * across_; }
  int height() const { return rows_ * down_; }
  int dots_across() const { return across_; }  // of a character
  int dots_down() const { return down_; }

  // Precondition: the places are on the canvas. A character belongs to the curve that was drawn on it last.
  void line(int x0, int y0, int x1, int y1, int curve);
  // A dot that can be seen where no line leads to it.
  void spot(int x, int y, int curve);

  // Precondition: column and row are on the canvas. curve: -1 if nothing was drawn there; the text is then empty.
  struct Cell {
    std::string text;  // one character
    int curve = -1;
  };
  Cell cell(int column, int row) const;

 private:
  struct Drawn {
    unsigned dots = 0;  // a bit for each
    int curve = -1;
  };
  void dot(int x, int y, int curve);

  int columns_, rows_, across_ = 1, down_ = 1;
  Marks marks_;
  std::vector<Drawn> cells_;
};

}  // namespace dl::plot
