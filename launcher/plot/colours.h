// SPDX-License-Identifier: Apache-2.0
// How curves are told apart in pictures. The colours are those of Okabe and Ito, which colour-blind people can tell
// apart, lighter on a dark background. Where there are more curves than colours, dash patterns tell them apart.
#pragma once

#include <array>
#include <cstddef>

namespace dl::plot {

struct Colour {
  const char *light, *dark;
};
constexpr std::array kColours{Colour{"#0072b2", "#4ba3dc"}, Colour{"#d55e00", "#f2813a"}, Colour{"#009e73", "#2fc79b"},
                              Colour{"#aa4488", "#dd8fbf"}, Colour{"#b07d00", "#e6b230"}, Colour{"#6a51a3", "#a993e0"},
                              Colour{"#a50f15", "#f07f7f"}, Colour{"#525252", "#bdbdbd"}};
constexpr std::array kDashes{"", "6 3", "2 3"};  // of SVG's stroke-dasharray
constexpr size_t kCurveStyles = kColours.size() * kDashes.size();

}  // namespace dl::plot
