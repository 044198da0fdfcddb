// SPDX-License-Identifier: Apache-2.0
// The modules through which dlctl reads Slurm's records (slurm-plugin/observe/module.h): which are installed, and which
// one serves the Slurm that runs here. Modules for several series of Slurm (major.minor) may be installed side by side:
// PKGLIBDIR/slurm-22.05/observe.so. Pure, except find_modules().
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/slurm_cli/slurm_cli.h"
#include "slurm-plugin/observe/module.h"

namespace dl::ctl {

struct SlurmModule {
  std::string series;  // "22.05"
  std::string path;
};

// "22.05"
std::string series_of(const slurm_cli::Version& version);

// The folders to look in, in this order: the configured `pkglibdir` relative to the place of `program` (so that an
// installed tree may be moved), then `pkglibdir` itself. program: path of dlctl, or empty if it is not known.
std::vector<std::string> module_folders(const std::string& program, const std::string& bindir,
                                        const std::string& pkglibdir);

// The modules in these folders, sorted by series; if two folders have one for the same series, the first folder's.
// Missing folders are skipped.
std::vector<SlurmModule> find_modules(const std::vector<std::string>& folders);

// "22.05, 24.11"
std::string series_list(const std::vector<SlurmModule>& modules);

// The path of the module for this Slurm; else kUnsupported, which says what was looked for, what is installed, and what
// to do.
Result<std::string> choose_module(const std::vector<SlurmModule>& modules, const slurm_cli::Version& version,
                                  const std::vector<std::string>& folders);

// kUnsupported unless the module at `path` is of this release of slurm-dl, for this series, and has the same record
// layout.
Status check_module(const observe::Module& module, const std::string& path, const std::string& release,
                    const std::string& series);

}  // namespace dl::ctl
