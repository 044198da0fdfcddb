// SPDX-License-Identifier: Apache-2.0
// What run and compare are told of the cluster and of time, as a scenario.
#pragma once

#include "slurm-plugin/sim/command.h"
#include "slurm-plugin/sim/engine/engine.h"

namespace dl::sim {

struct ScenarioOptions {
  ClusterOptions cluster;
  // Empty: as the configuration or the scenario has it.
  std::string min_run;
  std::string yield;
  std::string patience;
  std::string half_life;
  std::string stuck;
  std::string interval;
  std::string mtbf;
  std::string repair;
  double unavailable = 0;
  uint64_t seed = 1;

  void add(CommandLine* line);
  Result<Scenario> scenario(const Trace& trace) const;
};

// kInvalid "--OPTION: ..." ; an empty text leaves *out as it is.
Status set_time(const char* option, const std::string& text, int64_t* out);
// The last part of a path, for titles.
std::string title_name(const std::string& path);

}  // namespace dl::sim
