// SPDX-License-Identifier: Apache-2.0
// The time index of an attempt as readers need it: what dlrun wrote, and estimates for logs of which it knows nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/logs/log_index.h"

namespace dl::logs {

// Never fails. Of each of `ranks` that the index of this attempt below the job directory `root` does not know (it is
// lost or damaged, or an older dlrun wrote none), the log is taken to have grown evenly from `begin_ms`, when the
// attempt began (0: unknown), to its last change. Logs that cannot be read are left out.
LogIndex read_index(const std::string& root, int attempt, const std::vector<int>& ranks, int64_t begin_ms);

}  // namespace dl::logs
