// SPDX-License-Identifier: Apache-2.0
// Pieces of a plot as SVG, so that all our plots look alike: for light and dark backgrounds, with fonts that every
// system has, without scripts or other files. Coordinates are pixels. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dl::svg {

// The text with the characters replaced that XML does not allow in texts and attributes.
std::string escaped(std::string_view text);

// style: title, head, soft, tick (right-aligned), time (centred) or name.
std::string words(double x, double y, const char* style, std::string_view what);

// A round step (1, 2 or 5 times a power of ten) of which about `count` make up `range`.
double nice_step(double range, int count);

// The lines and numbers of an axis upwards, from 0 at `bottom` to `most` at `top`, a line each `step`.
std::string upward_axis(double left, double right, double top, double bottom, double most, double step);

// The whole file. `title` is what a screen reader says.
std::string document(double width, double height, std::string_view title, std::string_view body);

}  // namespace dl::svg
