// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "common/base/parse.h"
#include "launcher/ctl/doctor_judge.h"
#include "launcher/slurm_cli/records.h"

namespace dl::ctl::doctor {
namespace {

constexpr int64_t kClockNoteS = 2, kClockWrongS = 30;
constexpr int64_t kMunge = 300;        // a credential of munge's is valid for so long
constexpr int64_t kStaleRoundsS = 90;  // dlpolicyd's longest interval is 60 s
constexpr size_t kMostNodes = 6;

// Names of nodes, the first few of many.
std::string node_names(const std::vector<std::string>& nodes) {
  std::vector<std::string> first(nodes.begin(),
                                 nodes.begin() + static_cast<std::ptrdiff_t>(std::min(nodes.size(), kMostNodes)));
  return join(first, ", ") +
         (nodes.size() > kMostNodes ? fmt::format(" and {} others", nodes.size() - kMostNodes) : "");
}

}  // namespace

Findings judge_slurmctld(const Facts& facts) {
  if (facts.answers)
    return {ok(fmt::format("slurmctld of cluster '{}' answers: Slurm {}", slurm_setting(facts, "ClusterName"),
                           slurm_setting(facts, "SLURM_VERSION")))};
  return {wrong(fmt::format("Slurm does not answer here: {}; the last lines of slurmctld's log say why it does not run",
                            facts.slurm_fault),
                facts.slurm_conf.path, "SlurmctldHost=, and on that host: slurmctld -D -v")};
}

Findings judge_munge(const Facts& facts) {
  const std::string type = slurm_setting(facts, "AuthType");
  if (!type.empty() && type != "auth/munge") return {ok("Slurm does not use munge here, but " + type)};
  if (facts.answers) return {ok("slurmctld accepted a credential of this host")};
  if (!facts.munge_fault) return {note("the program munge is not here, so credentials were not tried")};
  if (facts.munge_fault->empty()) return {ok("munge makes and reads credentials on this host")};
  return {wrong(fmt::format("munge makes no credential here that it can read: {}; allowed: munged runs, with the same "
                            "munge.key on all hosts",
                            *facts.munge_fault),
                "/etc/munge/munge.key", "the key of the controller; then restart munged")};
}

Findings judge_clock(const Facts& facts) {
  if (facts.slurm_s == 0) return {note("slurmctld did not tell its time")};
  const int64_t apart = facts.now_s - facts.slurm_s;
  const int64_t size = std::abs(apart);
  const std::string text =
      fmt::format("this host's clock is {} s {} slurmctld's", size, apart > 0 ? "ahead of" : "behind");
  if (size >= kClockWrongS)
    return {
        wrong(fmt::format("{}: deadlines by which jobs save are missed, and munge refuses credentials that differ by "
                          "{} s; allowed: less than {} s",
                          text, kMunge, kClockWrongS),
              "", "run chronyd or systemd-timesyncd on this host and on the controller")};
  if (size > kClockNoteS) return {note(text)};
  return {ok(fmt::format("this host's clock and slurmctld's differ by {} s at most; other hosts: run this there",
                         kClockNoteS))};
}

Findings judge_versions(const Facts& facts) {
  Findings found;
  const std::string runs = slurm_setting(facts, "SLURM_VERSION");
  const std::string tools = facts.tools ? version_text(*facts.tools) : "";
  if (!tools.empty() && tools != runs)
    found.push_back(note(fmt::format(
        "Slurm's commands here are {}, slurmctld is {}: allowed, but only while you upgrade", tools, runs)));
  std::map<std::string, std::vector<std::string>> others;
  for (const slurm_cli::Record& node : slurm_cli::parse_records(facts.nodes, "NodeName"))
    if (const std::string version = node.value("Version"); !version.empty() && version != runs)
      others[version].push_back(node.value("NodeName"));
  for (const auto& [version, nodes] : others)
    found.push_back(
        note(fmt::format("slurmd is {} on {}, slurmctld is {}: a node loads a spank_dl.so of its own major.minor "
                         "version alone",
                         version, node_names(nodes), runs)));
  if (!facts.module_fault.empty()) found.push_back(wrong(facts.module_fault, "", "make install-slurm-module"));
  if (found.empty()) found.push_back(ok("Slurm " + runs + " on all hosts; dlctl can read its records"));
  return found;
}

Findings judge_policyd(const Facts& facts) {
  if (facts.site->tenants.empty()) return {ok("dl.toml has no tenants, so dlpolicyd is not needed")};
  Findings found;
  if (slurm_setting(facts, "PriorityType") != "priority/multifactor")
    found.push_back(
        wrong(fmt::format("PriorityType is {}: dlpolicyd cannot put jobs in order; allowed: priority/multifactor",
                          slurm_setting(facts, "PriorityType")),
              slurm_conf_place(facts, "PriorityType"), "PriorityType=priority/multifactor"));
  if (!facts.policyd_runs) {
    found.push_back(
        note("no dlpolicyd runs on this host: it runs on one host of the cluster; where none runs, nothing is lent or "
             "taken back",
             "", "systemctl enable --now dlpolicyd"));
    return found;
  }
  if (facts.policyd_age_s && *facts.policyd_age_s > kStaleRoundsS)
    found.push_back(wrong(fmt::format("dlpolicyd runs, and its last round was {} ago; allowed: {} at most",
                                      format_duration(std::chrono::seconds(*facts.policyd_age_s)),
                                      format_duration(std::chrono::seconds(kStaleRoundsS))),
                          "", "journalctl -u dlpolicyd says why; systemctl restart dlpolicyd"));
  else
    found.push_back(ok(facts.policyd_age_s
                           ? fmt::format("dlpolicyd runs; its last round was {} s ago", *facts.policyd_age_s)
                           : "dlpolicyd runs; without a --metrics-file its rounds cannot be seen"));
  return found;
}

}  // namespace dl::ctl::doctor
