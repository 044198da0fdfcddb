// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/wait_asked.h"

#include <algorithm>

#include "common/base/parse.h"

namespace dl::ctl {
namespace {

// The least number of nodes in "2-2" or "7".
int64_t least(const std::string& text) {
  const auto value = parse_int(text.substr(0, text.find('-')), 0, INT32_MAX);
  return value ? *value : 0;
}

}  // namespace

Asked asked_of(const slurm_cli::JobText& job) {
  const auto of = [&](std::string_view key) { return slurm_cli::given(job.value(key)); };
  Asked asked;
  // What the job asks for is in ReqTRES from Slurm 23.02 on, and in TRES before, as long as the job waits.
  asked.amounts = parse_amounts(of("ReqTRES").empty() ? of("TRES") : of("ReqTRES"));
  asked.amounts.nodes = std::max(asked.amounts.nodes, least(of("NumNodes")));
  asked.amounts.cpus = std::max(asked.amounts.cpus, least(of("NumCPUs")));
  // TRES has GPUs only if AccountingStorageTRES names them. The options that the user gave are always there.
  if (asked.amounts.gpus < 0) {
    GpuRequest request{of("TresPerJob"), of("TresPerNode"), of("TresPerSocket"), of("TresPerTask"), 0, 0};
    request.nodes = asked.amounts.nodes;
    request.tasks = least(of("NumTasks"));
    asked.amounts.gpus = request.gpus();
  }
  asked.partition = of("Partition");
  return asked;
}

}  // namespace dl::ctl
