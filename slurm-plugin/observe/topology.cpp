// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/observe/topology.h"

#include <algorithm>
#include <optional>

#include "common/base/parse.h"

namespace dl::observe {
namespace {

struct LeafForm {
  std::string_view start;
  std::string_view name_ends;  // the key after the name, where the name ends; names in topology.yaml may contain blanks
  std::string_view holds;      // text after the name that only the line of a leaf has
};
constexpr LeafForm kLeafForms[] = {
    {"SwitchName=", " Level=", " Level=0 "},
    {"BlockName=", " BlockIndex=", ""},
    {"RingName=", " Nodes=", ""},
};

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

std::optional<SwitchRecord> parse_leaf(std::string_view line, const LeafForm& form) {
  constexpr std::string_view kNodes = " Nodes=";
  if (!starts_with(line, form.start)) return std::nullopt;
  line.remove_prefix(form.start.size());
  const size_t end = line.find(form.name_ends);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(end);
  const size_t nodes = rest.find(kNodes);
  if (!starts_with(rest, form.holds) || nodes == std::string_view::npos) return std::nullopt;
  const std::string_view list = rest.substr(nodes + kNodes.size());
  return SwitchRecord{std::string(line.substr(0, end)), std::string(list.substr(0, list.find(' ')))};
}

std::string unquoted(std::string_view value) {
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front())
    value = value.substr(1, value.size() - 2);
  return std::string(value);
}

}  // namespace

std::vector<SwitchRecord> parse_topology(std::string_view text) {
  std::vector<SwitchRecord> leaves;
  for (const std::string& line : split(text, '\n')) {
    if (leaves.size() >= kMaxLeafSwitches) break;
    for (const LeafForm& form : kLeafForms)
      if (auto leaf = parse_leaf(trim(line), form); leaf && !leaf->nodes.empty()) leaves.push_back(std::move(*leaf));
  }
  return leaves;
}

std::vector<std::string> parse_topology_names(std::string_view yaml) {
  constexpr std::string_view kTopology = "- topology:", kDefault = "cluster_default:";
  std::vector<std::string> names;
  std::string now;  // the topology to which the following lines belong
  for (const std::string& line : split(yaml, '\n')) {
    if (starts_with(line, kTopology)) {
      now = unquoted(trim(std::string_view(line).substr(kTopology.size())));
      if (!now.empty() && now.front() != '-' && now.find('=') == std::string::npos) names.push_back(now);
      continue;
    }
    const std::string_view word = trim(line);
    if (!starts_with(word, kDefault) || trim(word.substr(kDefault.size())) != "true") continue;
    const auto found = std::find(names.begin(), names.end(), now);
    if (found != names.end()) std::rotate(names.begin(), found, found + 1);
  }
  return names;
}

}  // namespace dl::observe
