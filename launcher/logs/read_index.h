// SPDX-License-Identifier: Apache-2.0
// Reads the time index of an attempt, and estimates times for the logs that it lacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/logs/log_index.h"

namespace dl::logs {

// Never fails. root: the job directory. A rank may be missing in the index: it is lost or damaged, or an older dlrun
// wrote none. Its log is then taken to have grown evenly from `begin_ms`, when the attempt began (since the epoch; 0:
// unknown), to its last change. Logs that cannot be read are left out.
LogIndex read_index(const std::string& root, int attempt, const std::vector<int>& ranks, int64_t begin_ms);

}  // namespace dl::logs
