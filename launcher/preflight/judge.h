// SPDX-License-Identifier: Apache-2.0
// From the reports of all nodes to what is wrong with which. Pure.
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
  bool compared = false;          // it is a rate that is too far from the others'
};

// The rate between two nodes, both ways at once.
struct LinkRate {
  std::string a, b;
  double bytes_per_s = 0;
};

// When the reports were asked for and had all come, on dlrun's clock (Unix milliseconds): no node's clock may show
// another time.
struct AskedBetween {
  int64_t from_ms = 0, to_ms = 0;
};

// expected: all nodes; one without a report is bad. Where at least three nodes measured the same, one that is worse
// than the median by more than max(5 MAD, half the median) is bad, by more than max(3 MAD, 20 %) a warning (MAD: median
// absolute deviation). Sorted by node, bad ones first.
std::vector<Finding> judge_nodes(const std::vector<std::string>& expected, const std::vector<NodeReport>& reports,
                                 const AskedBetween& asked);

// A node all of whose links are slow is bad; a single slow link is a warning for both ends, since either may be at
// fault. Slow: less than half of what is usual, the median of the nodes' best links (the median of all links would be a
// slow one where one of three nodes is bad). Needs at least three nodes, else there is nothing to compare.
std::vector<Finding> judge_links(const std::vector<LinkRate>& links);

// The nodes that are named because of a rate that others have not, which is to be measured again.
std::vector<std::string> outliers_of(const std::vector<Finding>& findings);
// Merges two measurements: of each rate the higher one. Keeps the old report of a node that is silent again.
void take_better_rates(const std::vector<NodeReport>& again, std::vector<NodeReport>* reports);
std::vector<LinkRate> better_links(const std::vector<LinkRate>& one, const std::vector<LinkRate>& other);

std::vector<std::string> bad_nodes(const std::vector<Finding>& findings);

}  // namespace dl::preflight
