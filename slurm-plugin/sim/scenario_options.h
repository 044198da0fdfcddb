// SPDX-License-Identifier: Apache-2.0
// The options of run and compare that describe the cluster and its times, and the scenario that follows from them.
#pragma once

#include "slurm-plugin/sim/command.h"
#include "slurm-plugin/sim/engine/engine.h"

namespace dl::sim {

struct ScenarioOptions {
  ClusterOptions cluster;
  // An empty text means the value of the configuration, or else the default of Scenario.
  std::string min_run;
  std::string yield;
  std::string requeue;
  std::string join;
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

// kInvalid "--OPTION: ...". An empty text leaves *out as it is.
Status set_time(const char* option, const std::string& text, int64_t* out);
// The last part of a path, for titles of plots.
std::string title_name(const std::string& path);

}  // namespace dl::sim
