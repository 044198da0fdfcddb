// SPDX-License-Identifier: Apache-2.0
// dlckpt: inspects, compares, converts, repairs and measures checkpoint directories. It needs neither libhdf5 nor a
// framework, except where it writes checkpoints (import and bench, through libdlckpt) and for torch files (through
// Python).
#include "common/base/letters.h"
#include "common/base/standard_files.h"
#include "config.h"

#include <cstdio>
#include <exception>

#include "checkpoint/tools/maintenance.h"

int main(int argc, char** argv) {
  dl::open_closed_standard_files();
  dl::show_letters(dl::locale_is_utf8());
  using namespace dl::ckpt::tool;
  int exit_code = kOk;
  try {
    dl::CommandLine line("dlckpt",
                         "Works on the checkpoints of slurm-dl: list, verify, compare, convert. See dlckpt(1).");
    line.version("--version", "dlckpt " PACKAGE_VERSION);
    line.require_subcommand();
    line.instead_of({"list", "status"}, "dlckpt ls DIR lists checkpoints");
    line.instead_of({"upload", "push", "put"}, "dlckpt send DIR NAME:PATH copies a checkpoint into an object store");
    line.instead_of({"download", "pull", "get"}, "dlckpt fetch NAME:PATH DIR copies one from an object store");
    line.instead_of({"rm", "delete", "clean"}, "dlckpt gc DIR removes checkpoints that are not kept");
    // One row for each subcommand.
    add_ls(&line, &exit_code);
    add_show(&line, &exit_code);
    add_verify(&line, &exit_code);
    add_diff(&line, &exit_code);
    add_export(&line, &exit_code);
    add_import(&line, &exit_code);
    add_fork(&line, &exit_code);
    add_send(&line, &exit_code);
    add_fetch(&line, &exit_code);
    add_gc(&line, &exit_code);
    add_pin(&line, &exit_code);
    add_unpin(&line, &exit_code);
    add_bench(&line, &exit_code);
    const dl::Result<std::string> text = line.parse(argc, argv);
    if (!text) {
      std::fputs(line.complaint(text.error()).c_str(), stderr);
      return kUsage;
    }
    std::fputs(text->c_str(), stdout);
    if (text->empty()) line.run_action();
    if (std::fflush(stdout) != 0) {
      complain("the answer cannot be written to standard output");
      return kNothing;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dlckpt: %s\n", error.what());
    return kNothing;
  }
  return exit_code;
}
