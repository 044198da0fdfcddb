// SPDX-License-Identifier: Apache-2.0
// The bytes that draw a picture of the terminal, and the pieces in which they are written.
#include "launcher/top/screen.h"

#include <gtest/gtest.h>

namespace dl::top {
namespace {

// A resize comes between two pieces, and then something else is drawn: what was cut off would swallow its beginning.
TEST(TopScreenTest, ADrawingIsWrittenInPiecesThatCutNeitherASequenceNorACharacter) {
  Frame frame;
  for (int row = 0; row < 24; ++row)
    frame.lines.push_back({{"row " + std::to_string(row) + " größe 訓練", Style::kBold}, {" of 24", Style::kGood}});
  const std::string whole = drawing({}, frame, true, true);
  for (size_t most = 4; most < 300; ++most) {
    std::string_view rest = whole;
    while (!rest.empty()) {
      const size_t piece = piece_of(rest, most);
      ASSERT_GE(piece, 1U);
      ASSERT_LE(piece, most);
      rest.remove_prefix(piece);
      if (rest.empty()) break;
      ASSERT_NE(static_cast<unsigned char>(rest[0]) & 0xC0U, 0x80U) << "a character is cut, " << most;
      if (most >= 40) {
        ASSERT_EQ(rest[0], '\033') << "a sequence is cut, " << most;
      }
    }
  }
}

TEST(TopScreenTest, BytesThatAreNoTextComeInPiecesToo) {
  EXPECT_EQ(piece_of("", 256), 0U);
  EXPECT_EQ(piece_of(std::string(1000, '\x80'), 256), 1U);
  EXPECT_EQ(piece_of(std::string(1000, 'x'), 256), 256U);
  EXPECT_EQ(piece_of("\033[1m" + std::string(300, 'x'), 256), 256U);
}

}  // namespace
}  // namespace dl::top
