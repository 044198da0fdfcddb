// SPDX-License-Identifier: Apache-2.0
// Finds from the reports of all nodes which nodes are bad, and why. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/preflight/report.h"

namespace dl::preflight {

struct Finding {
  std::string node;
  std::string check;
  Grade grade = Grade::kWarning;  // kWarning or kBad
  std::string text;               // a sentence without the node's name
  bool compared = false;          // from comparing a rate with those of the other nodes
};

// The rate between two nodes, both ways at once.
struct LinkRate {
  std::string a, b;
  double bytes_per_s = 0;
};

// When the reports were requested and when the last one came, by dlrun's clock (Unix time in ms): the times in the
// reports must lie between.
struct AskedBetween {
  int64_t from_ms = 0, to_ms = 0;
};

// expected: all nodes; one without a report is bad. If at least three nodes measured a rate, a node that is below the
// median by more than max(5 MAD, half the median) is bad, by more than max(3 MAD, 20 % of it) a warning (MAD: median
// absolute deviation). Bad findings come first, then by node.
std::vector<Finding> judge_nodes(const std::vector<std::string>& expected, const std::vector<NodeReport>& reports,
                                 const AskedBetween& asked);

// A node whose links are all slow is bad; a single slow link is a warning for both ends, since either may be at fault.
// Slow: less than half the usual rate, which is the median of the nodes' best links (with one bad node of three, the
// median of all links would itself be slow). Returns nothing for fewer than three nodes.
std::vector<Finding> judge_links(const std::vector<LinkRate>& links);

// The nodes with a finding that compares rates (Finding::compared); they are measured a second time.
std::vector<std::string> outliers_of(const std::vector<Finding>& findings);
// Merges a second measurement into *reports: keeps the higher of two rates. A node without a second report stays
// unchanged.
void take_better_rates(const std::vector<NodeReport>& again, std::vector<NodeReport>* reports);
std::vector<LinkRate> better_links(const std::vector<LinkRate>& one, const std::vector<LinkRate>& other);

std::vector<std::string> bad_nodes(const std::vector<Finding>& findings);

}  // namespace dl::preflight
