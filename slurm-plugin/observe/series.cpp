// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/observe/series.h"

#include <fmt/format.h>

namespace dl::observe {

Status check_series(const std::string& controller, const std::string& series) {
  if (controller == series || controller.compare(0, series.size() + 1, series + ".") == 0) return {};
  return Error{Errc::kUnsupported,
               fmt::format("slurmctld is of {}, and this program was built for Slurm {}: build slurm-dl with the "
                           "headers and libslurm of slurmctld's version, and install that",
                           controller.empty() ? "an older Slurm" : "Slurm " + controller, series)};
}

}  // namespace dl::observe
