// SPDX-License-Identifier: Apache-2.0
// dlctl quota sync: changes Slurm's licences and accounts to what dl.toml says of tenants.
#pragma once

#include "launcher/ctl/subcommand.h"

namespace dl::ctl {

// Adds its options to `line`, the command line of the subcommand.
Run add_quota_sync(CommandLine* line);

}  // namespace dl::ctl
