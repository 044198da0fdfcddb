// SPDX-License-Identifier: Apache-2.0
#include "launcher/preflight/judge.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/base/median.h"
#include "common/base/parse.h"

namespace dl::preflight {
namespace {

constexpr size_t kFewestToCompare = 3;
constexpr int64_t kClockWarningMs = 1000, kClockBadMs = 30000;
constexpr double kBadShare = 0.5, kBadMads = 5, kWarningShare = 0.2, kWarningMads = 3, kSlowLink = 0.5;

// Whether the check measures a rate. Only rates are compared, and a higher one is better.
bool is_rate(const CheckResult& check) {
  return check.unit.size() > 2 && check.unit.compare(check.unit.size() - 2, 2, "/s") == 0;
}

std::string readable(double value, const std::string& unit) {
  const char* prefix = "";
  for (const char* larger : {"k", "M", "G", "T", "P"}) {
    if (std::abs(value) < 1000) break;
    value /= 1000;
    prefix = larger;
  }
  return fmt::format("{:.3g} {}{}", value, prefix, unit);
}

void compare(const std::string& name, const std::map<std::string, CheckResult>& by_node,
             std::vector<Finding>* findings) {
  if (by_node.size() < kFewestToCompare) return;
  std::vector<double> values;
  for (const auto& [node, check] : by_node) values.push_back(*check.value);
  const double middle = median(values);
  const double mad = median_deviation(values, middle);
  for (const auto& [node, check] : by_node) {
    const double behind = middle - *check.value;
    const bool bad = behind > std::max(kBadMads * mad, kBadShare * middle);
    if (!bad && behind <= std::max(kWarningMads * mad, kWarningShare * middle)) continue;
    findings->push_back({node, name, bad ? Grade::kBad : Grade::kWarning,
                         fmt::format("{} is {}, the median of {} nodes {}", name, readable(*check.value, check.unit),
                                     by_node.size(), readable(middle, check.unit)),
                         true});
  }
}

void judge_clock(const NodeReport& report, const AskedBetween& asked, std::vector<Finding>* findings) {
  const int64_t off = report.time_ms < asked.from_ms ? report.time_ms - asked.from_ms
                      : report.time_ms > asked.to_ms ? report.time_ms - asked.to_ms
                                                     : 0;
  if (std::abs(off) < kClockWarningMs) return;
  findings->push_back({report.node, "clock", std::abs(off) >= kClockBadMs ? Grade::kBad : Grade::kWarning,
                       fmt::format("its clock is {:.1f} s {}", static_cast<double>(std::abs(off)) / 1000,
                                   off < 0 ? "behind" : "ahead")});
}

}  // namespace

std::vector<Finding> judge_nodes(const std::vector<std::string>& expected, const std::vector<NodeReport>& reports,
                                 const AskedBetween& asked) {
  std::vector<Finding> findings;
  std::set<std::string> heard;
  std::map<std::string, std::map<std::string, CheckResult>> rates;  // by check and node
  for (const NodeReport& report : reports) {
    heard.insert(report.node);
    judge_clock(report, asked, &findings);
    for (const CheckResult& check : report.checks) {
      if (check.grade == Grade::kWarning || check.grade == Grade::kBad) {
        findings.push_back({report.node, check.name, check.grade, printable(check.text, 300)});
      } else if (check.grade == Grade::kGood && check.value && is_rate(check)) {
        rates[check.name].emplace(report.node, check);
      }
    }
  }
  for (const auto& [name, by_node] : rates) compare(name, by_node, &findings);
  for (const std::string& node : expected)
    if (heard.count(node) == 0) findings.push_back({node, "answer", Grade::kBad, "the node does not answer"});
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return a.grade != b.grade ? a.grade == Grade::kBad : a.node < b.node;
  });
  return findings;
}

std::vector<Finding> judge_links(const std::vector<LinkRate>& links) {
  std::vector<Finding> findings;
  std::map<std::string, int> all, slow;
  std::map<std::string, double> best;
  for (const LinkRate& link : links) {
    for (const std::string* node : {&link.a, &link.b}) {
      ++all[*node];
      best[*node] = std::max(best[*node], link.bytes_per_s);
    }
  }
  if (all.size() < kFewestToCompare) return findings;
  std::vector<double> rates;
  for (const auto& [node, rate] : best) rates.push_back(rate);
  const double usual = median(rates);
  const auto is_slow = [&](const LinkRate& link) { return link.bytes_per_s < kSlowLink * usual; };
  for (const LinkRate& link : links) {
    if (!is_slow(link)) continue;
    ++slow[link.a];
    ++slow[link.b];
  }
  std::set<std::string> bad;
  for (const auto& [node, count] : slow) {
    // With three nodes, two slow links share one node, which is the bad one. A node with a single link is not blamed,
    // since the link does not tell which of its two nodes is bad.
    if (count == all[node] && count > 1) bad.insert(node);
  }
  for (const std::string& node : bad)
    findings.push_back({node, "links", Grade::kBad,
                        fmt::format("all its {} links are slow; usual is {}", all[node], readable(usual, "B/s"))});
  for (const LinkRate& link : links) {
    if (!is_slow(link) || bad.count(link.a) + bad.count(link.b) > 0) continue;
    for (const auto& [node, other] : {std::pair(link.a, link.b), std::pair(link.b, link.a)})
      findings.push_back({node, "links", Grade::kWarning,
                          fmt::format("its link to {} carries {}, usual is {}", other,
                                      readable(link.bytes_per_s, "B/s"), readable(usual, "B/s"))});
  }
  return findings;
}

std::vector<std::string> outliers_of(const std::vector<Finding>& findings) {
  std::set<std::string> nodes;
  for (const Finding& finding : findings)
    if (finding.compared) nodes.insert(finding.node);
  return {nodes.begin(), nodes.end()};
}

void take_better_rates(const std::vector<NodeReport>& again, std::vector<NodeReport>* reports) {
  for (NodeReport& report : *reports) {
    const auto its =
        std::find_if(again.begin(), again.end(), [&](const NodeReport& other) { return other.node == report.node; });
    if (its == again.end()) continue;
    for (CheckResult& check : report.checks) {
      const auto other = std::find_if(its->checks.begin(), its->checks.end(),
                                      [&](const CheckResult& one) { return one.name == check.name; });
      const bool both = other != its->checks.end() && check.grade == Grade::kGood && other->grade == Grade::kGood &&
                        check.value && other->value && is_rate(check);
      if (both && *other->value > *check.value) check = *other;
    }
  }
}

std::vector<LinkRate> better_links(const std::vector<LinkRate>& one, const std::vector<LinkRate>& other) {
  std::vector<LinkRate> better = one;
  for (LinkRate& link : better)
    for (const LinkRate& same : other)
      if (same.a == link.a && same.b == link.b) link.bytes_per_s = std::max(link.bytes_per_s, same.bytes_per_s);
  return better;
}

std::vector<std::string> bad_nodes(const std::vector<Finding>& findings) {
  std::set<std::string> bad;
  for (const Finding& finding : findings)
    if (finding.grade == Grade::kBad) bad.insert(finding.node);
  return {bad.begin(), bad.end()};
}

}  // namespace dl::preflight
