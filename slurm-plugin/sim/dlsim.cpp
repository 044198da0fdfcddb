// SPDX-License-Identifier: Apache-2.0
// dlsim: what would this queue have been under another policy? This file only dispatches.
#include <cstdio>

#include "common/base/standard_files.h"
#include "config.h"
#include "slurm-plugin/sim/command.h"

namespace dl::sim {
namespace {

// THE table of subcommands. To add one: a file beside this one, and a row.
const Command kCommands[] = {
    {"run", "replay a trace under several policies and compare them", add_run},
    {"compare", "simulated waits beside those that a cluster really had, and calibration", add_compare},
    {"sweep", "what placement does, over the load of a cluster", add_sweep},
    {"generate", "make a trace, shaped on published figures", add_generate},
    {"import", "make a trace of what sacct knows of a cluster's jobs", add_import},
    {"check", "read a trace, and say what is in it or which line is wrong", add_check},
    {"decide", "divide GPUs among elastic jobs, asked in JSON", add_decide},
    {"elastic", "compare elastic policies over the load of a cluster", add_elastic},
    {"policies", "the policies that run knows", add_policies},
};

int run(int argc, char** argv) {
  CommandLine line("dlsim",
                   "Replay traces of deep-learning jobs in virtual time, under the policy of slurm-dl and others.");
  line.version("--version", PACKAGE_STRING);
  line.require_subcommand();
  line.footer("Each subcommand has a --help of its own. Format of traces, meaning of columns, exit codes: dlsim(1).");
  std::vector<std::pair<CommandLine*, Run>> runs;
  for (const Command& row : kCommands) {
    CommandLine* sub = line.subcommand(row.name, row.summary);
    runs.emplace_back(sub, row.add(sub));
  }
  const Result<std::string> text = line.parse(argc, argv);
  if (!text) {
    std::fputs(line.complaint(text.error()).c_str(), stderr);
    return kUsage;
  }
  if (!text->empty()) return std::fputs(text->c_str(), stdout) < 0 ? kFailed : kDone;
  for (const auto& [sub, action] : runs) {
    if (!sub->chosen()) continue;
    Status status = action();
    if (status && std::fflush(stdout) != 0)
      status = Error{Errc::kIo, "the answer cannot be written to standard output"};
    if (status) return kDone;
    std::fprintf(stderr, "dlsim %s: %s\n", sub->name().c_str(), status.error().text.c_str());
    const Errc code = status.error().code;
    return code == Errc::kInvalid || code == Errc::kConflict || code == Errc::kNotFound ? kUsage : kFailed;
  }
  return kUsage;
}

}  // namespace
}  // namespace dl::sim

int main(int argc, char** argv) {
  dl::open_closed_standard_files();
  try {
    return dl::sim::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dlsim: %s\n", error.what());
    return dl::sim::kFailed;
  }
}
