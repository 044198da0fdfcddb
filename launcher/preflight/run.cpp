// SPDX-License-Identifier: Apache-2.0
#include "launcher/preflight/run.h"
#include "common/base/clock.h"
#include "common/json/json.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "common/base/parse.h"
#include "launcher/preflight/on_nodes.h"

namespace dl::preflight {
namespace {

// Longer than the limits in dl-preflight, since srun needs time to start.
constexpr std::chrono::seconds kQuickLimit{25}, kFullLimit{60}, kLinksLimit{60}, kNcclLimit{70};
constexpr std::chrono::hours kMaxAge{24};

std::vector<std::string> program_of(const RunInput& input, const std::vector<plan::Node>& nodes, bool full,
                                    std::chrono::seconds max_age) {
  std::vector<std::string> program = {input.program_folder + "/dl-preflight", "--split", "--job-dir", input.job_dir};
  if (full) program.insert(program.end(), {"--full", "--max-age", std::to_string(max_age.count())});
  if (nodes.size() > 1) {
    std::string peers;
    for (const plan::Node& node : nodes) peers += (peers.empty() ? "" : ",") + node.name;
    program.insert(program.end(), {"--peers", peers});
  }
  if (const int gpus = gpus_of_each(nodes); gpus > 0) program.insert(program.end(), {"--gpus", std::to_string(gpus)});
  return program;
}

Result<std::vector<NodeReport>> ask_nodes(const RunInput& input, const std::vector<plan::Node>& nodes, bool full,
                                          std::chrono::seconds max_age) {
  DL_TRY_ASSIGN(const std::string text, run_on_nodes(input, nodes, "none", program_of(input, nodes, full, max_age),
                                                     full ? kFullLimit : kQuickLimit));
  std::vector<NodeReport> reports;
  for (const std::string& line : split(text, '\n'))
    if (auto report = parse_report(line)) add_report(*std::move(report), &reports);
  if (reports.empty()) return Error{Errc::kIo, "no node gave a report: " + printable(trim(text), 300)};
  return reports;
}

std::vector<plan::Node> named(const std::vector<plan::Node>& nodes, const std::vector<std::string>& names) {
  std::vector<plan::Node> found;
  for (const plan::Node& node : nodes)
    if (std::find(names.begin(), names.end(), node.name) != names.end()) found.push_back(node);
  return found;
}

// Measured rates. Empty if nothing is measured: without Slurm or MPI, or with a single node.
struct Links {
  std::vector<LinkRate> pairs;
  std::optional<double> allreduce_bytes_per_s;
};
Result<Links> measure_links(const RunInput& input, double seconds_each) {
  Links links;
  const std::string program = input.program_folder + "/dl-preflight-links";
  if (!input.under_slurm || input.nodes.size() < 2 || ::access(program.c_str(), X_OK) != 0) return links;
  DL_TRY_ASSIGN(const std::string text, run_on_nodes(input, input.nodes, input.mpi_plugin,
                                                     {program, fmt::format("{:.3f}", seconds_each)}, kLinksLimit));
  std::istringstream lines(text);
  LinkRate link;
  while (lines >> link.a >> link.b >> link.bytes_per_s) {
    if (link.a == "-") {
      links.allreduce_bytes_per_s = link.bytes_per_s;
    } else {
      links.pairs.push_back(link);
    }
  }
  return links;
}

void add(const std::vector<Finding>& more, Outcome* outcome) {
  outcome->findings.insert(outcome->findings.end(), more.begin(), more.end());
}

// Links that look slow are measured again, and longer, since other programs may have used them or the CPUs. The better
// rate counts. A node meets each other one in a round of its own, so the time of a pair is a share of what all rounds
// together may take.
void check_links(const RunInput& input, Outcome* outcome) {
  auto links = measure_links(input, 0);
  for (const double seconds : {5.0, 15.0}) {
    if (!links || judge_links(links->pairs).empty()) break;
    const double each = std::min(1.0, seconds / static_cast<double>(input.nodes.size()));
    if (const auto again = measure_links(input, each)) links->pairs = better_links(links->pairs, again->pairs);
  }
  if (!links) {
    outcome->findings.push_back(
        {input.nodes.front().name, "links", Grade::kWarning, "the links could not be measured: " + links.error().text});
    return;
  }
  outcome->links = std::move(links->pairs);
  outcome->allreduce_bytes_per_s = links->allreduce_bytes_per_s;
  add(judge_links(outcome->links), outcome);
}

Result<std::vector<NcclGroup>> measure_groups(const RunInput& input,
                                              const std::vector<std::vector<std::string>>& groups) {
  std::vector<NcclGroup> found;
  if (groups.empty()) return found;
  std::string folder = input.job_dir + "/.preflight-nccl-XXXXXX", argument;
  std::vector<std::string> all;
  for (const auto& group : groups) {
    for (const std::string& node : group) argument += (&node == &group.front() ? "" : ",") + node;
    argument += &group == &groups.back() ? "" : ";";
    all.insert(all.end(), group.begin(), group.end());
  }
  if (::mkdtemp(folder.data()) == nullptr) return errno_error("make a folder in " + input.job_dir, errno);
  const auto text = run_on_nodes(input, input.under_slurm ? named(input.nodes, all) : input.nodes, "none",
                                 {input.program_folder + "/dl-preflight-nccl", folder, argument}, kNcclLimit);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!text) return text.error();
  std::vector<NcclReport> reports;
  for (const std::string& line : split(*text, '\n'))
    if (auto report = parse_nccl_report(line)) reports.push_back(*std::move(report));
  for (const auto& group : groups) found.push_back(put_together(group, reports));
  return found;
}

// Measures NCCL in three rounds: pairs of nodes, then suspects with good nodes, then all good nodes together.
Status check_nccl(const RunInput& input, const std::string& here, Outcome* outcome) {
  std::vector<std::string> nodes = input.under_slurm ? names_of(input.nodes) : std::vector<std::string>{here};
  DL_TRY_ASSIGN(outcome->nccl, measure_groups(input, first_groups(nodes)));
  DL_TRY_ASSIGN(const std::vector<NcclGroup> second, measure_groups(input, second_groups(outcome->nccl)));
  const std::vector<Finding> findings = judge_nccl(outcome->nccl, second);
  add(findings, outcome);
  const bool one_group = outcome->nccl.size() == 1;
  outcome->nccl.insert(outcome->nccl.end(), second.begin(), second.end());
  // Done: the only group contained all nodes, or there is no NCCL.
  if (one_group || (!outcome->nccl.empty() && outcome->nccl.front().skipped)) return {};
  for (const std::string& bad : bad_nodes(findings)) nodes.erase(std::find(nodes.begin(), nodes.end(), bad));
  DL_TRY_ASSIGN(const std::vector<NcclGroup> whole, measure_groups(input, {nodes}));
  outcome->nccl.insert(outcome->nccl.end(), whole.begin(), whole.end());
  if (!whole.front().skipped && !whole.front().bytes_per_s && findings.empty())
    outcome->findings.push_back(
        {nodes.front(), "nccl", Grade::kWarning, "NCCL's all-reduce over all nodes: " + whole.front().text});
  return {};
}

}  // namespace

Result<Outcome> run_preflight(const RunInput& input) {
  const bool full = input.mode == PreflightMode::kFull;
  AskedBetween asked{unix_ms(), 0};
  Outcome outcome;
  DL_TRY_ASSIGN(outcome.reports, ask_nodes(input, input.nodes, full, kMaxAge));
  asked.to_ms = unix_ms();
  const std::string here = outcome.reports.front().node;
  const std::vector<std::string> expected = input.under_slurm ? names_of(input.nodes) : std::vector<std::string>{here};
  outcome.findings = judge_nodes(expected, outcome.reports, asked);
  // The load of another program at that moment is not the node's fault, so outliers are measured twice.
  if (const auto outliers = named(input.nodes, outliers_of(outcome.findings)); !outliers.empty()) {
    if (const auto again = ask_nodes(input, outliers, true, std::chrono::seconds(0))) {
      take_better_rates(*again, &outcome.reports);
      outcome.findings = judge_nodes(expected, outcome.reports, asked);
    }
  }
  if (!full || !bad_nodes(outcome.findings).empty()) return outcome;
  check_links(input, &outcome);
  if (gpus_of_each(input.nodes) == 0 || !bad_nodes(outcome.findings).empty()) return outcome;
  if (const Status measured = check_nccl(input, here, &outcome); !measured)
    outcome.findings.push_back({here, "nccl", Grade::kWarning, "NCCL could not be measured: " + measured.error().text});
  return outcome;
}

Result<Outcome> run_again(const RunInput& input, const std::vector<std::string>& suspects) {
  const auto again = named(input.nodes, suspects);
  const bool full = input.mode == PreflightMode::kFull && !again.empty();
  AskedBetween asked;
  if (full)
    ignore(ask_nodes(input, again, true, std::chrono::seconds(0)), "a node that does not answer is found below");
  Outcome outcome;
  asked.from_ms = unix_ms();
  DL_TRY_ASSIGN(outcome.reports, ask_nodes(input, input.nodes, full, kMaxAge));
  asked.to_ms = unix_ms();
  outcome.findings = judge_nodes(names_of(input.nodes), outcome.reports, asked);
  return outcome;
}

std::string format_outcome(const Outcome& outcome) {
  Json all{{"nodes", Json::array()}, {"links", Json::array()}, {"findings", Json::array()}};
  for (const NodeReport& report : outcome.reports) all["nodes"].push_back(Json::parse(format_report(report)));
  for (const LinkRate& link : outcome.links)
    all["links"].push_back({{"a", link.a}, {"b", link.b}, {"bytes_per_s", link.bytes_per_s}});
  if (outcome.allreduce_bytes_per_s) all["allreduce_bytes_per_s"] = *outcome.allreduce_bytes_per_s;
  all["nccl"] = Json::array();
  for (const NcclGroup& group : outcome.nccl) {
    Json item = {{"nodes", group.nodes}};
    if (group.bytes_per_s) item["bytes_per_s"] = *group.bytes_per_s;
    if (!group.text.empty()) item["text"] = group.text;
    if (group.skipped) item["skipped"] = true;
    all["nccl"].push_back(std::move(item));
  }
  for (const Finding& finding : outcome.findings)
    all["findings"].push_back({{"node", finding.node},
                               {"check", finding.check},
                               {"grade", grade_name(finding.grade)},
                               {"text", finding.text}});
  return all.dump_sorted(1) + "\n";
}

}  // namespace dl::preflight
