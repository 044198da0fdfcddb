// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/wait_asked.h"

#include <algorithm>

#include "common/base/parse.h"

namespace dl::ctl {
namespace {

// "2-2" and "7" nodes.
int64_t least(const std::string& text) {
  const auto value = parse_int(text.substr(0, text.find('-')), 0, INT32_MAX);
  return value ? *value : 0;
}

}  // namespace

Asked asked_of(const slurm_cli::JobText& job) {
  const auto of = [&](std::string_view key) { return slurm_cli::given(job.value(key)); };
  Asked asked;
  // ReqTRES from 23.02 on; before, TRES is what a waiting job asks for.
  asked.amounts = parse_amounts(of("ReqTRES").empty() ? of("TRES") : of("ReqTRES"));
  asked.amounts.nodes = std::max(asked.amounts.nodes, least(of("NumNodes")));
  asked.amounts.cpus = std::max(asked.amounts.cpus, least(of("NumCPUs")));
  // GPUs are TRES only where AccountingStorageTRES names them; what was typed is there always.
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
