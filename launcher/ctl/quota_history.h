// SPDX-License-Identifier: Apache-2.0
// dlctl quota --history: the GPUs that tenants held over time, from the file that dlpolicyd writes.
#pragma once

#include "launcher/ctl/subcommand.h"

namespace dl::ctl {

struct HistoryOptions {
  bool history = false;
  bool csv = false;
  std::string since = "1d";
  std::string tenant, svg;
  std::string file = "/var/lib/dlpolicyd/history.csv";
  bool given = false;  // --since, --tenant, --svg or --history-file was given
};

void add_history_options(CommandLine* line, HistoryOptions* options);
// Says on standard error of how many lines of this file nothing is known; nothing if there is none.
void tell_skipped(const std::string& file, int lines);
// json: `dlctl quota --json`. kInvalid or kConflict for options that are wrong or exclude each other; kNotFound without
// a history file.
Status show_history(const HistoryOptions& options, bool json);

}  // namespace dl::ctl
