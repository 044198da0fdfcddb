// SPDX-License-Identifier: Apache-2.0
// Decides which nodes run NCCL together, and which node or link is bad: first pairs, then each suspect with a good node
// (as DLRover does). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/preflight/judge.h"

namespace dl::preflight {

// An all-reduce over all GPUs of these nodes.
struct NcclGroup {
  std::vector<std::string> nodes;
  std::optional<double> bytes_per_s;  // bus bandwidth; none: failed or skipped
  std::string text;                   // the reason if there is no rate
  bool skipped = false;               // cannot be measured (no NCCL): the nodes are not judged
};

// One line of dl-preflight-nccl: the result of one node of a group.
struct NcclReport {
  std::string node;
  std::optional<double> bytes_per_s;
  std::string text;
  bool skipped = false;
};
// kInvalid for anything else.
Result<NcclReport> parse_nccl_report(const std::string& line);
std::string format_nccl_report(const NcclReport& report);
// Merges the reports of a group: its rate is that of the slowest node; the group failed if a node failed or has no
// report.
NcclGroup put_together(const std::vector<std::string>& nodes, const std::vector<NcclReport>& reports);

// The first round: pairs of neighbours; of an odd number, the last three form one group. None for fewer than two nodes.
std::vector<std::vector<std::string>> first_groups(const std::vector<std::string>& nodes);
// The second round: each node of a group that failed or was slow, paired with a node of a good group, as far as those
// suffice.
std::vector<std::vector<std::string>> second_groups(const std::vector<NcclGroup>& first);
// Bad: a node that failed or was slow in both rounds. Slow: below the median of the first round by half of it and by 5
// MAD (with two groups, the better one is the standard). Warnings: both nodes of a pair were good in the second round
// (so the link may be bad), or there was no good node left for a second round.
std::vector<Finding> judge_nccl(const std::vector<NcclGroup>& first, const std::vector<NcclGroup>& second);

}  // namespace dl::preflight
