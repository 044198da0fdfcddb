// SPDX-License-Identifier: Apache-2.0
// Shows outcomes to people and programs: a table, JSON, a plot.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/sim/engine/outcome.h"
#include "slurm-plugin/sim/report/confidence.h"

namespace dl::sim {

// One line per policy, under a heading; with `tenants` also one per policy and tenant, with `sizes` one per policy and
// size of jobs. Ends with a newline.
std::string table_text(const std::vector<Outcome>& outcomes, bool tenants, bool sizes = false);

// The means of the policies with their confidence intervals, one line each. `level` is for example 0.95.
struct Judged {
  std::string policy;
  Confidence confidence;
};
std::string confidence_text(const std::vector<Judged>& policies, double level);

// An array with one object for each policy, as in dlsim(1). Ends with a newline. `judged` is looked up by the policy's
// name.
std::string json_text(const std::vector<Outcome>& outcomes, const std::vector<Judged>& judged = {}, double level = 0);

// The text above the plot.
struct PlotTitle {
  std::string title;
  std::string subtitle;
};
// A whole SVG file: use and queue over time, a line per policy, and the queue times' percentiles as bars. It needs only
// common fonts, no script and no other file.
std::string svg_text(const std::vector<Outcome>& outcomes, const PlotTitle& title);

// Formats rows of cells as text; the first row is the heading. The first `names` columns are aligned to the left, the
// others to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows, size_t names);

// "12s", "3.4m", "1.2h", "2.5d", "-1.2h".
std::string short_time(double seconds);

}  // namespace dl::sim
