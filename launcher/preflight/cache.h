// SPDX-License-Identifier: Apache-2.0
// Keeps a node's measurements, so that a later job or a restart need not measure again: one file for each node in the
// user's own cache, because other users could not trust it.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/preflight/report.h"

namespace dl::preflight {

// $XDG_CACHE_HOME/slurm-dl/preflight or ~/.cache/slurm-dl/preflight; empty without a home.
std::string default_cache_folder();

// The cached report of this node, with the age in its checks. None if it is older than max_age, cannot be read, or was
// made before the node's last reboot. Call it on that node.
std::optional<NodeReport> cached_report(const std::string& folder, const std::string& node, int64_t now_ms,
                                        std::chrono::seconds max_age);
// Stores a report. Failures are ignored: it is then measured again.
void keep_report(const std::string& folder, const NodeReport& report);

}  // namespace dl::preflight
