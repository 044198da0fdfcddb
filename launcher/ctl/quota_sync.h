// SPDX-License-Identifier: Apache-2.0
// dlctl quota sync: has Slurm hold what dl.toml says of tenants.
#pragma once

#include "launcher/ctl/subcommand.h"

namespace dl::ctl {

// Adds its options to `line`, the subcommand itself.
Run add_quota_sync(CommandLine* line);

}  // namespace dl::ctl
