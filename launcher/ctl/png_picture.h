// SPDX-License-Identifier: Apache-2.0
// Makes a PNG of a picture that this program has drawn as SVG.
#pragma once

#include <string>

#include "common/base/result.h"
#include "launcher/plot/svg_plot.h"

namespace dl::ctl {

// The PNG file, on which each pixel of the picture is two wide and high, or less where it would be larger than programs
// can draw it. The program rsvg-convert of librsvg makes it: librsvg knows fonts and letters of all languages, and so
// neither the build nor dlctl needs a library of pictures. kUnsupported: it is not in PATH; kIo: it made no PNG, or not
// within a minute. Both are a sentence for the user.
Result<std::string> png_of(const plot::Drawing& drawing);

}  // namespace dl::ctl
