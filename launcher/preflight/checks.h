// SPDX-License-Identifier: Apache-2.0
// The checks that dl-preflight makes on its own node. They block; they change nothing except temporary files, which
// they remove.
#pragma once

#include <string>
#include <vector>

#include "launcher/preflight/report.h"

namespace dl::preflight {

// kFullEachTime: full checks of the job's GPUs; never cached, since another job may get other GPUs of the node.
enum class Depth { kQuick, kFullEachTime, kFull };

struct CheckInput {
  std::string job_dir;             // the job directory, which must be writable from every node
  std::vector<std::string> peers;  // names of the job's nodes
  int gpus = -1;                   // GPUs that the job has here; -1: not known
};

// The table of checks. All quick checks together take at most a second, the others about ten.
struct Check {
  const char* name;
  Depth depth;
  const char* unit;
  CheckResult (*run)(const CheckInput& input);
};
extern const Check kChecks[];
extern const size_t kCheckCount;

// Runs the checks of these depths.
NodeReport run_checks(const std::vector<Depth>& depths, const std::string& node, const CheckInput& input);

// checks_full.cpp: rates of this node, to be compared between nodes.
CheckResult check_memory_bandwidth(const CheckInput& input);
CheckResult check_compute(const CheckInput& input);
CheckResult check_disk_write(const CheckInput& input);
// nvml.cpp: through NVIDIA's management library, where it is installed.
CheckResult check_gpus(const CheckInput& input);
// gpu_rates.cpp: copy rates through CUDA's driver, if it is installed. Each gives the rate of the slowest GPU, or is
// bad and names the GPU. The first call measures all four.
CheckResult check_gpu_from_host(const CheckInput& input);
CheckResult check_gpu_to_host(const CheckInput& input);
CheckResult check_gpu_memory(const CheckInput& input);
CheckResult check_gpu_to_gpu(const CheckInput& input);

CheckResult good(double value);
CheckResult not_good(Grade grade, std::string text);

}  // namespace dl::preflight
