// SPDX-License-Identifier: Apache-2.0
// What was measured on a node is kept for its next job, so that a restart does not cost it again: one file for each
// node in the user's own cache, since a user's programs cannot vouch for a node to others.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/preflight/report.h"

namespace dl::preflight {

// $XDG_CACHE_HOME/slurm-dl/preflight or ~/.cache/slurm-dl/preflight; empty without a home.
std::string default_cache_folder();

// The report of this node if it is younger than max_age, with the age in its checks. What cannot be read, or is of
// another boot of the node, does not count.
std::optional<NodeReport> cached_report(const std::string& folder, const std::string& node, int64_t now_ms,
                                        std::chrono::seconds max_age);
// Failures do not matter.
void keep_report(const std::string& folder, const NodeReport& report);

}  // namespace dl::preflight
