// SPDX-License-Identifier: Apache-2.0
// dlckpt: looks into checkpoint directories, compares, converts, mends and measures. Needs neither libhdf5 nor a
// framework, except where it writes checkpoints (import, bench: through libdlckpt) and torch files (through Python).
#include "config.h"

#include <cstdio>
#include <exception>

#include "checkpoint/tools/maintenance.h"

int main(int argc, char** argv) {
  using namespace dl::ckpt::tool;
  int exit_code = kOk;
  try {
    CLI::App app{"Works on the checkpoints of slurm-dl: list, verify, compare, convert. See dlckpt(1).", "dlckpt"};
    app.set_version_flag("--version", "dlckpt " PACKAGE_VERSION);
    app.require_subcommand(1);
    // One row for each subcommand.
    add_ls(&app, &exit_code);
    add_show(&app, &exit_code);
    add_verify(&app, &exit_code);
    add_diff(&app, &exit_code);
    add_export(&app, &exit_code);
    add_import(&app, &exit_code);
    add_gc(&app, &exit_code);
    add_pin(&app, &exit_code);
    add_unpin(&app, &exit_code);
    add_bench(&app, &exit_code);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      // 0 for --help and --version; everything else is a mistake on the command line.
      return app.exit(error) == 0 ? kOk : kUsage;
    }
    if (std::fflush(stdout) != 0) {
      complain("cannot write the answer");
      return kNothing;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dlckpt: %s\n", error.what());
    return kNothing;
  }
  return exit_code;
}
