// SPDX-License-Identifier: Apache-2.0
// The checks that dl-preflight makes on the node it runs on. Each takes its time there and nowhere else; none changes
// anything but a file of its own that it removes again.
#pragma once

#include <string>
#include <vector>

#include "launcher/preflight/report.h"

namespace dl::preflight {

// kFullEachTime: of the GPUs that this job holds, which says nothing of others on the node; never kept for a next job.
enum class Depth { kQuick, kFullEachTime, kFull };

struct CheckInput {
  std::string job_dir;             // where events and logs go; must be writable from every node
  std::vector<std::string> peers;  // names of the job's nodes
  int gpus = -1;                   // that learners will use here; -1: not known
};

// The table: quick checks take a second at most together, others ten.
struct Check {
  const char* name;
  Depth depth;
  const char* unit;
  CheckResult (*run)(const CheckInput& input);
};
extern const Check kChecks[];
extern const size_t kCheckCount;

// The checks of these depths.
NodeReport run_checks(const std::vector<Depth>& depths, const std::string& node, const CheckInput& input);

// checks_full.cpp: how much this node can do, to be compared with others.
CheckResult check_memory_bandwidth(const CheckInput& input);
CheckResult check_compute(const CheckInput& input);
CheckResult check_disk_write(const CheckInput& input);
// nvml.cpp: through NVIDIA's management library, where it is installed.
CheckResult check_gpus(const CheckInput& input);
// gpu_rates.cpp: through CUDA's driver, where it is installed; the slowest GPU's rate, or which one is slow. All are
// measured by the first call.
CheckResult check_gpu_from_host(const CheckInput& input);
CheckResult check_gpu_to_host(const CheckInput& input);
CheckResult check_gpu_memory(const CheckInput& input);
CheckResult check_gpu_to_gpu(const CheckInput& input);

CheckResult good(double value);
CheckResult not_good(Grade grade, std::string text);

}  // namespace dl::preflight
