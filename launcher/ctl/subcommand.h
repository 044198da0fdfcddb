// SPDX-License-Identifier: Apache-2.0
// One subcommand of dlctl: its options and what it does. Each lies in a file of its own and has a row in dlctl.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "launcher/common/result.h"

namespace dl::ctl {

// Exit codes of dlctl; the table in dlctl(1) is the same.
enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2, kUnknownJob = 3, kDenied = 4, kTimedOut = 5 };
// What an error means for the exit code.
int exit_code_of(const Error& error);

// Called once, after the command line was parsed. Prints what it has to say on stdout; an error is printed by main().
using Run = std::function<Status()>;

struct Subcommand {
  const char* name;
  const char* summary;
  // Adds the options to `app`; the values live as long as the Run that is returned.
  Run (*add)(CLI::App* app);
};

Run add_status(CLI::App* app);
Run add_pause(CLI::App* app);
Run add_resume(CLI::App* app);
Run add_logs(CLI::App* app);
Run add_frameworks(CLI::App* app);
Run add_config(CLI::App* app);
Run add_quota(CLI::App* app);
Run add_why(CLI::App* app);

}  // namespace dl::ctl
