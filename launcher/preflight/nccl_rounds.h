// SPDX-License-Identifier: Apache-2.0
// Which nodes measure NCCL together, and what that tells of each: pairs, then each suspect with a good node, so that
// the bad node or link is named (as DLRover does). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/preflight/judge.h"

namespace dl::preflight {

// An all-reduce over all GPUs of these nodes.
struct NcclGroup {
  std::vector<std::string> nodes;
  std::optional<double> bytes_per_s;  // bus bandwidth; nothing: it failed, or was skipped
  std::string text;                   // why, where there is no rate
  bool skipped = false;               // cannot be measured here (no NCCL): says nothing of the nodes
};

// One line of dl-preflight-nccl: what one node of a group says.
struct NcclReport {
  std::string node;
  std::optional<double> bytes_per_s;
  std::string text;
  bool skipped = false;
};
// kInvalid for anything else.
Result<NcclReport> parse_nccl_report(const std::string& line);
std::string format_nccl_report(const NcclReport& report);
// The slowest of its nodes counts; one that says nothing, or that failed, is the group's failure.
NcclGroup put_together(const std::vector<std::string>& nodes, const std::vector<NcclReport>& reports);

// Neighbours; of an odd number the last three together. Fewer than two nodes: none.
std::vector<std::vector<std::string>> first_groups(const std::vector<std::string>& nodes);
// Every node of a group that failed or was slow, with a node of one that was not, as far as there are such.
std::vector<std::vector<std::string>> second_groups(const std::vector<NcclGroup>& first);
// Bad: a node that fails or is slow with two partners, the second of which is good. Slow: below half of what is usual
// (median, and by more than 5 MAD; of two groups the better one). Warnings: where it cannot be told which node it is,
// or where both are good with others, so that it is the link.
std::vector<Finding> judge_nccl(const std::vector<NcclGroup>& first, const std::vector<NcclGroup>& second);

}  // namespace dl::preflight
