// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/network/rules.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <map>

#include "common/base/hostlist.h"
#include "common/base/ip_prefix.h"
#include "common/base/parse.h"

namespace dl::network {
namespace {

constexpr size_t kMaxNodes = 100'000;

// nft refuses an empty list of elements, and an element that is listed twice.
std::string set_text(const char* name, const char* type, std::vector<std::string> elements) {
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  std::string text = fmt::format("  set {} {{ type {}; flags interval; auto-merge;", name, type);
  if (!elements.empty()) text += " elements = { " + join(elements, ", ") + " }";
  return text + " }\n";
}

bool can_be_quoted(const std::string& path) {
  return !path.empty() && std::all_of(path.begin(), path.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+:@").find(c) != std::string_view::npos;
  });
}

// The value of "NodeAddr=a" among the words of a line; keys are compared without regard to case.
std::string value_of(const std::vector<std::string>& words, std::string_view key) {
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == key.size() && ::strncasecmp(word.c_str(), key.data(), equals) == 0) return word.substr(equals + 1);
  }
  return "";
}

}  // namespace

std::string table_name(int64_t job) {
  return fmt::format("slurm_dl_{}", job);
}

std::string no_rules_text(int64_t job) {
  return fmt::format("add table inet {0}\ndelete table inet {0}\n", table_name(job));
}

Result<std::string> rules_text(int64_t job, const std::string& cgroup, int level,
                               const std::vector<std::string>& peers) {
  if (!can_be_quoted(cgroup) || level < 1)
    return Error{Errc::kInvalid,
                 fmt::format("'{}' is not the path of a cgroup that nft takes", printable(cgroup, 200))};
  std::vector<std::string> v4, v6;
  for (const std::string& peer : peers) {
    const auto prefix = parse_ip_prefix(peer);
    if (!prefix) return Error{Errc::kInvalid, fmt::format("'{}' is not an address", printable(peer, 100))};
    (prefix->v6 ? v6 : v4).push_back(prefix->text);
  }
  const std::string whose = fmt::format("socket cgroupv2 level {} \"{}\"", level, cgroup);
  return no_rules_text(job) + fmt::format("table inet {} {{\n", table_name(job)) +
         set_text("peers4", "ipv4_addr", std::move(v4)) + set_text("peers6", "ipv6_addr", std::move(v6)) +
         fmt::format(
             "  chain out {{ type filter hook output priority filter; policy accept; {} jump out_of_job; }}\n"
             "  chain out_of_job {{ oifname \"lo\" accept; ip daddr @peers4 accept; ip6 daddr @peers6 accept; "
             "reject with icmpx type admin-prohibited; }}\n"
             "  chain in {{ type filter hook input priority filter; policy accept; {} jump into_job; }}\n"
             "  chain into_job {{ iifname \"lo\" accept; ip saddr @peers4 accept; ip6 saddr @peers6 accept; "
             "drop; }}\n}}\n",
             whose, whose);
}

std::optional<std::string> cgroup2_mount(std::string_view mountinfo) {
  for (const std::string& line : split(mountinfo, '\n')) {
    const size_t dash = line.find(" - cgroup2 ");
    const std::vector<std::string> words = split(line.substr(0, dash), ' ');
    if (dash != std::string::npos && words.size() > 4) return words[4];
  }
  return std::nullopt;
}

std::optional<std::string> slurm_job_cgroup(std::string_view self_cgroup, int64_t job) {
  const std::string name = fmt::format("/job_{}", job);
  for (const std::string& line : split(self_cgroup, '\n')) {
    if (line.rfind("0::/", 0) != 0) continue;
    const std::string path = line.substr(3);
    for (size_t at = path.find(name); at != std::string::npos; at = path.find(name, at + 1)) {
      const size_t end = at + name.size();
      if (path.find("slurm") < at && (end == path.size() || path[end] == '/')) return path.substr(0, end);
    }
  }
  return std::nullopt;
}

int depth_of(std::string_view path) {
  int depth = 0;
  for (const std::string& part : split(path, '/')) depth += part.empty() ? 0 : 1;
  return depth;
}

SlurmAddresses addresses_in(std::string_view slurm_conf, const std::vector<std::string>& nodes) {
  std::map<std::string, std::string> address_of;
  SlurmAddresses found;
  for (const std::string& whole : split(slurm_conf, '\n')) {
    const std::string line(trim(std::string_view(whole).substr(0, whole.find('#'))));
    const std::vector<std::string> words = split(line, ' ');
    if (const std::string host = value_of(words, "SlurmctldHost"); !host.empty()) {
      const size_t open = host.find('('), close = host.find(')');
      found.controllers.push_back(open != std::string::npos && close != std::string::npos && close > open
                                      ? host.substr(open + 1, close - open - 1)
                                      : host);
    }
    const auto names = expand_hostlist(value_of(words, "NodeName"), kMaxNodes);
    std::string given = value_of(words, "NodeAddr");
    if (given.empty()) given = value_of(words, "NodeHostname");
    const auto addresses = expand_hostlist(given, kMaxNodes);
    if (names && addresses && names->size() == addresses->size())
      for (size_t i = 0; i < names->size(); ++i) address_of.emplace((*names)[i], (*addresses)[i]);
  }
  for (const std::string& node : nodes) {
    const auto known = address_of.find(node);
    found.nodes.push_back(known == address_of.end() ? node : known->second);
  }
  return found;
}

}  // namespace dl::network
