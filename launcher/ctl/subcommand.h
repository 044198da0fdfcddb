// SPDX-License-Identifier: Apache-2.0
// One subcommand of dlctl: its options and what it does. Each lies in a file of its own and has a row in dlctl.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/cli/command_line.h"

namespace dl::ctl {

// Exit codes of dlctl; the table in dlctl(1) is the same.
enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2, kUnknownJob = 3, kDenied = 4, kTimedOut = 5 };
// What an error means for the exit code.
int exit_code_of(const Error& error);

// Does the work of a subcommand. Called once, after parsing; prints its answer on stdout. main() prints the error.
using Run = std::function<Status()>;

struct Subcommand {
  const char* name;
  const char* summary;
  // Adds the options to `line`; the returned Run owns the variables that receive their values.
  Run (*add)(CommandLine* line);
};

Run add_status(CommandLine* line);
Run add_pause(CommandLine* line);
Run add_resume(CommandLine* line);
Run add_grow(CommandLine* line);
Run add_logs(CommandLine* line);
Run add_metrics(CommandLine* line);
Run add_usage(CommandLine* line);
Run add_frameworks(CommandLine* line);
Run add_config(CommandLine* line);
Run add_quota(CommandLine* line);
Run add_why(CommandLine* line);
Run add_scaling(CommandLine* line);
Run add_clean(CommandLine* line);
Run add_migrate(CommandLine* line);
Run add_python(CommandLine* line);
Run add_top(CommandLine* line);
Run add_report(CommandLine* line);
Run add_export(CommandLine* line);
Run add_doctor(CommandLine* line);
Run add_data(CommandLine* line);
Run add_results(CommandLine* line);

// `dlctl status --ended`: prints the ended jobs of the job directories in these folders; if empty, in the current one.
Status print_ended(const std::vector<std::string>& folders, bool as_json);

}  // namespace dl::ctl
