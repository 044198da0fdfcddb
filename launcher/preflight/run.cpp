// SPDX-License-Identifier: Apache-2.0
#include "launcher/preflight/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launcher/common/atomic_file.h"
#include "launcher/common/child_process.h"
#include "launcher/common/hostlist.h"
#include "launcher/common/parse.h"

namespace dl::preflight {
namespace {

// More than dl-preflight gives itself, and time for srun to start.
constexpr std::chrono::seconds kQuickLimit{25}, kFullLimit{60}, kLinksLimit{60};
constexpr std::chrono::hours kMaxAge{24};
constexpr size_t kMaxOutput = 16 << 20;

int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::vector<std::string> names_of(const std::vector<plan::Node>& nodes) {
  std::vector<std::string> names;
  names.reserve(nodes.size());
  for (const plan::Node& node : nodes) names.push_back(node.name);
  return names;
}

// The GPUs of every node, or 0 where they are not the same or not known.
int gpus_of_each(const std::vector<plan::Node>& nodes) {
  const int gpus = nodes.front().gpus;
  const bool same = std::all_of(nodes.begin(), nodes.end(), [&](const plan::Node& node) { return node.gpus == gpus; });
  return same ? std::max(gpus, 0) : 0;
}

// srun of one task on each node, with its output in a file, where it is found also when a node never answers.
std::vector<std::string> srun_line(const RunInput& input, const std::string& mpi, const std::string& output) {
  std::vector<std::string> argv = {"env"};
  for (const std::string& name : input.scrub) {
    argv.emplace_back("-u");
    argv.push_back(name);
  }
  const std::string count = std::to_string(input.nodes.size());
  argv.insert(argv.end(), {"srun", "--mpi=" + mpi, "--job-name=preflight", "--nodes=" + count, "--ntasks=" + count,
                           "--ntasks-per-node=1", "--nodelist=" + compress_hostlist(names_of(input.nodes)), "--overlap",
                           "--cpu-bind=none", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--export=ALL",
                           "--quiet", "--unbuffered", "--output=" + output});
  if (const int gpus = gpus_of_each(input.nodes); gpus > 0) argv.push_back("--gres=gpu:" + std::to_string(gpus));
  return argv;
}

Status run_on_nodes(std::vector<std::string> argv, const std::vector<std::string>& program,
                    std::chrono::seconds limit) {
  argv.insert(argv.end(), program.begin(), program.end());
  CommandOptions options;
  options.timeout = limit;
  auto result = run_command(argv, options);
  if (!result) return std::move(result).error();
  if (!result->ok() && !result->err.empty())
    return Error{Errc::kIo, printable(trim(result->err.substr(0, result->err.find('\n'))), 300)};
  return {};
}

// The checks of this machine alone, without Slurm.
Result<std::string> run_here(const std::vector<std::string>& program, std::chrono::seconds limit) {
  CommandOptions options;
  options.timeout = limit;
  DL_TRY_ASSIGN(CommandResult result, run_command(program, options));
  if (!result.ok()) return Error{Errc::kIo, "dl-preflight: " + printable(trim(result.err), 300)};
  return result.out;
}

// Never measured: no MPI in this build, or a single node.
struct Links {
  std::vector<LinkRate> pairs;
  std::optional<double> allreduce_bytes_per_s;
};
Result<Links> measure_links(const RunInput& input) {
  Links links;
  const std::string program = input.program_folder + "/dl-preflight-links";
  if (!input.under_slurm || input.nodes.size() < 2 || ::access(program.c_str(), X_OK) != 0) return links;
  const std::string output = input.job_dir + "/preflight-links.out";
  const Status ran = run_on_nodes(srun_line(input, input.mpi_plugin, output), {program}, kLinksLimit);
  const auto text = read_small_file(output, kMaxOutput);
  ::unlink(output.c_str());
  if (!ran) return ran.error();
  if (!text) return text.error();
  std::istringstream lines(*text);
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

}  // namespace

Result<Outcome> run_preflight(const RunInput& input) {
  const bool full = input.mode == PreflightMode::kFull;
  const std::chrono::seconds limit = full ? kFullLimit : kQuickLimit;
  std::vector<std::string> program = {input.program_folder + "/dl-preflight", "--job-dir", input.job_dir};
  if (full)
    program.insert(program.end(), {"--full", "--max-age", std::to_string(std::chrono::seconds(kMaxAge).count())});
  if (input.nodes.size() > 1) {
    std::string peers;
    for (const plan::Node& node : input.nodes) peers += (peers.empty() ? "" : ",") + node.name;
    program.insert(program.end(), {"--peers", peers});
  }
  if (const int gpus = gpus_of_each(input.nodes); gpus > 0)
    program.insert(program.end(), {"--gpus", std::to_string(gpus)});
  AskedBetween asked{unix_ms(), 0};
  std::string text;
  if (input.under_slurm) {
    const std::string output = input.job_dir + "/preflight.out";
    ::unlink(output.c_str());
    const Status ran = run_on_nodes(srun_line(input, "none", output), program, limit);
    auto written = read_small_file(output, kMaxOutput);
    ::unlink(output.c_str());
    if (written) text = *std::move(written);
    // Where one node said nothing, the others' reports tell which.
    if (text.empty() && !ran) return ran.error();
  } else {
    DL_TRY_ASSIGN(text, run_here(program, limit));
  }
  asked.to_ms = unix_ms();
  Outcome outcome;
  for (const std::string& line : split(text, '\n'))
    if (auto report = parse_report(line)) outcome.reports.push_back(*std::move(report));
  if (outcome.reports.empty()) return Error{Errc::kIo, "no node gave a report: " + printable(trim(text), 300)};
  const std::vector<std::string> expected =
      input.under_slurm ? names_of(input.nodes) : std::vector<std::string>{outcome.reports.front().node};
  outcome.findings = judge_nodes(expected, outcome.reports, asked);
  if (full && bad_nodes(outcome.findings).empty()) {
    if (auto links = measure_links(input)) {
      outcome.links = std::move(links->pairs);
      outcome.allreduce_bytes_per_s = links->allreduce_bytes_per_s;
      const auto more = judge_links(outcome.links);
      outcome.findings.insert(outcome.findings.end(), more.begin(), more.end());
    } else {
      outcome.findings.push_back({input.nodes.front().name, "links", Grade::kWarning,
                                  "the links could not be measured: " + links.error().text});
    }
  }
  return outcome;
}

std::string format_outcome(const Outcome& outcome) {
  nlohmann::json all{
      {"nodes", nlohmann::json::array()}, {"links", nlohmann::json::array()}, {"findings", nlohmann::json::array()}};
  for (const NodeReport& report : outcome.reports) all["nodes"].push_back(nlohmann::json::parse(format_report(report)));
  for (const LinkRate& link : outcome.links)
    all["links"].push_back({{"a", link.a}, {"b", link.b}, {"bytes_per_s", link.bytes_per_s}});
  if (outcome.allreduce_bytes_per_s) all["allreduce_bytes_per_s"] = *outcome.allreduce_bytes_per_s;
  for (const Finding& finding : outcome.findings)
    all["findings"].push_back({{"node", finding.node},
                               {"check", finding.check},
                               {"grade", grade_name(finding.grade)},
                               {"text", finding.text}});
  return all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace dl::preflight
