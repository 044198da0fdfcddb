// SPDX-License-Identifier: Apache-2.0
// Pieces of a plot as SVG, so that all our plots look alike: for light and dark backgrounds, with fonts that every
// system has, without scripts or other files. Coordinates are pixels. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dl::svg {

// The text with the characters that XML reserves (& < > ") replaced by entities.
std::string escaped(std::string_view text);

// A text whose baseline begins at x, y. style: title, head, soft, tick (right-aligned), time (centred) or name.
std::string words(double x, double y, const char* style, std::string_view what);

// A round step (1, 2 or 5 times a power of ten) that divides `range` into at most `count` parts.
double nice_step(double range, int count);

// The grid lines and numbers of a vertical axis, from 0 at `bottom` to `most` at `top`, one line each `step`.
std::string upward_axis(double left, double right, double top, double bottom, double most, double step);

// The background that a picture is drawn for. kLight: the file has no rules for a dark one, for programs that would
// follow them always.
enum class Ground { kBoth, kLight };

// The whole SVG file. Screen readers read `title`.
std::string document(double width, double height, std::string_view title, std::string_view body,
                     Ground ground = Ground::kBoth);

}  // namespace dl::svg
