// SPDX-License-Identifier: Apache-2.0
#include "launcher/preflight/nccl_rounds.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/base/median.h"
#include "common/base/parse.h"
#include "common/json/json.h"

namespace dl::preflight {
namespace {

constexpr double kSlow = 0.5, kMads = 5;
constexpr size_t kFewestForMad = 3;

// The usual rate, and the least that a rate must have not to be suspicious.
struct Usual {
  double rate = 0, least = 0;
};
Usual usual_of(const std::vector<NcclGroup>& groups) {
  std::vector<double> rates;
  for (const NcclGroup& group : groups)
    if (group.bytes_per_s) rates.push_back(*group.bytes_per_s);
  if (rates.empty()) return {};
  if (rates.size() < kFewestForMad) {
    const double best = *std::max_element(rates.begin(), rates.end());
    return {best, kSlow * best};
  }
  const double middle = median(rates);
  return {middle, middle - std::max(kSlow * middle, kMads * median_deviation(rates, middle))};
}

bool is_good(const NcclGroup& group, const Usual& usual) {
  return group.bytes_per_s && *group.bytes_per_s >= usual.least;
}

std::string others(const NcclGroup& group, const std::string& node) {
  std::string text;
  for (const std::string& other : group.nodes)
    if (other != node) text += (text.empty() ? "" : ", ") + other;
  return text;
}

std::string says(const NcclGroup& group, const Usual& usual) {
  if (!group.bytes_per_s) return group.text;
  return fmt::format("{:.3g} GB/s, usual is {:.3g}", *group.bytes_per_s / 1e9, usual.rate / 1e9);
}

}  // namespace

std::string format_nccl_report(const NcclReport& report) {
  Json json = {{"node", report.node}, {"text", report.text}, {"skipped", report.skipped}};
  if (report.bytes_per_s) json["bytes_per_s"] = *report.bytes_per_s;
  return json.dump_sorted();
}

Result<NcclReport> parse_nccl_report(const std::string& line) {
  const auto json = Json::parse(line);
  NcclReport report;
  try {
    report.node = json.at("node").get<std::string>();
    report.text = printable(json.at("text").get<std::string>(), 300);
    report.skipped = json.at("skipped").get<bool>();
    if (json.contains("bytes_per_s")) report.bytes_per_s = json.at("bytes_per_s").get<double>();
  } catch (const JsonError&) {
    return Error{Errc::kInvalid, "the text is not a report of dl-preflight-nccl"};
  }
  return report;
}

NcclGroup put_together(const std::vector<std::string>& nodes, const std::vector<NcclReport>& reports) {
  NcclGroup group;
  group.nodes = nodes;
  bool failed = false;
  for (const std::string& node : nodes) {
    const auto its =
        std::find_if(reports.begin(), reports.end(), [&](const NcclReport& report) { return report.node == node; });
    if (its == reports.end()) {
      failed = true;
      if (group.text.empty()) group.text = node + " sent no report";
    } else if (its->bytes_per_s) {
      group.bytes_per_s = std::min(group.bytes_per_s.value_or(*its->bytes_per_s), *its->bytes_per_s);
    } else if (its->skipped) {
      group.skipped = true;
      group.text = its->text;
    } else {
      failed = true;
      if (group.text.empty()) group.text = its->text;
    }
  }
  if (failed || group.skipped) group.bytes_per_s.reset();
  return group;
}

std::vector<std::vector<std::string>> first_groups(const std::vector<std::string>& nodes) {
  std::vector<std::vector<std::string>> groups;
  for (size_t i = 0; i + 1 < nodes.size(); i += 2) groups.push_back({nodes[i], nodes[i + 1]});
  if (!groups.empty() && nodes.size() % 2 == 1) groups.back().push_back(nodes.back());
  return groups;
}

std::vector<std::vector<std::string>> second_groups(const std::vector<NcclGroup>& first) {
  const Usual usual = usual_of(first);
  std::vector<std::string> suspects, good;
  for (const NcclGroup& group : first) {
    if (group.skipped) continue;
    auto& list = is_good(group, usual) ? good : suspects;
    list.insert(list.end(), group.nodes.begin(), group.nodes.end());
  }
  std::vector<std::vector<std::string>> groups;
  for (size_t i = 0; i < std::min(suspects.size(), good.size()); ++i) groups.push_back({suspects[i], good[i]});
  return groups;
}

std::vector<Finding> judge_nccl(const std::vector<NcclGroup>& first, const std::vector<NcclGroup>& second) {
  const Usual usual = usual_of(first);
  std::map<std::string, const NcclGroup*> again;  // by suspect
  for (const NcclGroup& group : second) again[group.nodes.front()] = &group;
  std::vector<Finding> findings;
  for (const NcclGroup& group : first) {
    if (group.skipped || is_good(group, usual)) continue;
    std::set<std::string> bad;
    for (const std::string& node : group.nodes) {
      const auto its = again.find(node);
      if (its == again.end() || its->second->skipped || is_good(*its->second, usual)) continue;
      bad.insert(node);
      findings.push_back(
          {node, "nccl", Grade::kBad,
           fmt::format("NCCL's all-reduce is slow or fails with {} ({}) and with {} ({})", others(group, node),
                       says(group, usual), others(*its->second, node), says(*its->second, usual))});
    }
    // Without a bad node in the group, its nodes get a warning. A node that is good with another one was slowed down by
    // its bad partner.
    for (const std::string& node : group.nodes) {
      if (!bad.empty()) break;
      const auto its = again.find(node);
      const char* why = its == again.end()     ? "; there is no other node to tell why"
                        : its->second->skipped ? "; with another node it could not be measured"
                                               : "; with another node it is good";
      findings.push_back(
          {node, "nccl", Grade::kWarning,
           fmt::format("NCCL's all-reduce with {}: {}{}", others(group, node), says(group, usual), why)});
    }
  }
  return findings;
}

}  // namespace dl::preflight
