// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/passed_options.h"

#include <iterator>

namespace dl::submit {

// In the order of the batch script. Other options of sbatch are given with --sbatch.
const PassedOption kPassedOptions[] = {
    {"job-name", "NAME", "Name of the job (default: from the command)"},
    {"partition", "NAME", "Partition"},
    {"account", "NAME", "Account (tenant)"},
    {"qos", "NAME", "Quality of service"},
    {"time", "TIME", "Time limit, for example 2:00:00"},
    {"cpus-per-task", "N", "CPUs for each learner"},
    {"mem", "SIZE", "Memory on each node, for example 64G"},
    {"output", "PATH", "Where the job's output goes"},
};
const size_t kPassedOptionCount = std::size(kPassedOptions);

}  // namespace dl::submit
