// SPDX-License-Identifier: Apache-2.0
// A subcommand of dlsim: its options and what it does. Each has a file of its own and a row in dlsim.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/cli/command_line.h"
#include "slurm-plugin/sim/world/cluster.h"

namespace dl::sim {

// Exit codes; dlsim(1) has the same table.
enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2 };

// Does the work of the subcommand, after the command line was parsed. It prints its result on stdout; main() prints an
// error.
using Run = std::function<Status()>;

struct Command {
  const char* name;
  const char* summary;
  // Adds the options to `line`; the values live as long as the Run that is returned.
  Run (*add)(CommandLine* line);
};

Run add_run(CommandLine* line);
Run add_generate(CommandLine* line);
Run add_compare(CommandLine* line);
Run add_sweep(CommandLine* line);
Run add_import(CommandLine* line);
Run add_check(CommandLine* line);
Run add_decide(CommandLine* line);
Run add_elastic(CommandLine* line);
Run add_policies(CommandLine* line);

// The options that describe the cluster; most subcommands have them.
struct ClusterOptions {
  std::string config;
  std::string nodes;  // empty: those of the configuration, or kDefaultNodes without one
  int per_switch = 16;

  void add(CommandLine* line);
  Result<Site> site() const;
};

// Writes the text into the file, or to stdout if the path is "-". The file gets the whole text, or does not exist.
Status write_text(const std::string& path, const std::string& text);

}  // namespace dl::sim
