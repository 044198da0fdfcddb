// SPDX-License-Identifier: Apache-2.0
// The outcomes of elastic policies over several loads: as a table, as JSON and as a picture.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/sim/elastic/experiment.h"

namespace dl::sim {

struct SweepRow {
  double load = 1;
  bool drop = false;
  ElasticOutcome outcome;
};

// One line for each row; beside the completed jobs stand those of the baseline. Ends with a newline.
std::string sweep_table(const std::vector<SweepRow>& rows);
// An array with one object for each row, as in dlsim(1). Ends with a newline.
std::string sweep_json(const std::vector<SweepRow>& rows);
// A whole SVG file: completed jobs, dropped jobs, and mean time until completion, over the load, with a line for each
// policy.
std::string sweep_svg(const std::vector<SweepRow>& rows, const std::string& title);

}  // namespace dl::sim
