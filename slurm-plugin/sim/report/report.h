// SPDX-License-Identifier: Apache-2.0
// Outcomes for people and programs: a table, JSON, a plot.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/sim/engine/outcome.h"

namespace dl::sim {

// One line per policy, under a heading; with `tenants` also one per policy and tenant. Ends with a newline.
std::string table_text(const std::vector<Outcome>& outcomes, bool tenants);

// An array with one object per policy, as in dlsim(1). Ends with a newline.
std::string json_text(const std::vector<Outcome>& outcomes);

// What stands above the plot.
struct PlotTitle {
  std::string title;
  std::string subtitle;
};
// A whole SVG file: use and queue over time, a line per policy, and the queue times' percentiles as bars. Needs no font
// that is not everywhere, no script and no other file.
std::string svg_text(const std::vector<Outcome>& outcomes, const PlotTitle& title);

// "12s", "3.4m", "1.2h", "2.5d".
std::string short_time(double seconds);

}  // namespace dl::sim
