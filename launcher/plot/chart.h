// SPDX-License-Identifier: Apache-2.0
// What a chart shows: curves over a common axis, and marks on that axis. Texts are shown as they are, so the caller
// passes those of others through printable() first.
#pragma once

#include <string>
#include <vector>

namespace dl::plot {

struct Sample {
  double x = 0;
  double y = 0;  // NaN or infinite: the curve has a gap here
};

struct Curve {
  std::string name, note;       // the note stands behind the name in the legend
  std::vector<Sample> samples;  // in the order in which they are joined
};

// Something that happened at one place of the axis.
struct Mark {
  double x = 0;
  std::string name;  // "attempt 2"; short
  std::string text;  // one line that tells more
};

struct Chart {
  std::string title;
  std::string axis;  // what x is, such as "train step"
  std::vector<Curve> curves;
  std::vector<Mark> marks;
  std::vector<std::string> notes;  // lines below the legend
};

}  // namespace dl::plot
