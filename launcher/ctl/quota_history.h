// SPDX-License-Identifier: Apache-2.0
// dlctl quota --history: what tenants held over time, as dlpolicyd wrote it down.
#pragma once

#include "launcher/ctl/subcommand.h"

namespace dl::ctl {

struct HistoryOptions {
  bool history = false;
  bool csv = false;
  std::string since = "1d";
  std::string tenant, svg;
  std::string file = "/var/lib/dlpolicyd/history.csv";
  bool given = false;  // any option of these but --history
};

void add_history_options(CommandLine* line, HistoryOptions* options);
// json: as --json of dlctl quota. kInvalid or kConflict for options that cannot be; kNotFound without a history.
Status show_history(const HistoryOptions& options, bool json);

}  // namespace dl::ctl
