// SPDX-License-Identifier: Apache-2.0
// The modules through which dlctl reads Slurm's records (slurm-plugin/observe/module.h): which are installed, and which
// of them serves the Slurm that runs here. There may be one for each major.minor of Slurm, its "series", side by side:
// PKGLIBDIR/slurm-22.05/observe.so. Pure, but for find_modules().
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

// Where to look, the first first: the folder that lies to `program` as the configured `pkglibdir` to `bindir`, so that
// an installed tree may be moved, then `pkglibdir` itself. `program` empty: not known.
std::vector<std::string> module_folders(const std::string& program, const std::string& bindir,
                                        const std::string& pkglibdir);

// What lies in these folders, by version; of two for one version that of the first folder. A folder that is not there
// has none.
std::vector<SlurmModule> find_modules(const std::vector<std::string>& folders);

// "22.05, 24.11"
std::string series_list(const std::vector<SlurmModule>& modules);

// The path of the one for this Slurm; else kUnsupported with what was looked for, what is there, and what to do.
Result<std::string> choose_module(const std::vector<SlurmModule>& modules, const slurm_cli::Version& version,
                                  const std::vector<std::string>& folders);

// kUnsupported unless the module found at `path` is of this release of slurm-dl and for this series of Slurm.
Status check_module(const observe::Module& module, const std::string& path, const std::string& release,
                    const std::string& series);

}  // namespace dl::ctl
