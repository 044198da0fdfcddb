// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/framework_nodes.h"
#include "common/base/this_process.h"
#include "common/json/json.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>

#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/slurm_cli/user_settings.h"

namespace dl::ctl {
namespace {

constexpr std::chrono::minutes kAskTimeout{5};
constexpr size_t kMaxAnswers = 64UL << 20;

std::string text_of(const Json& object, const char* key) {
  auto found = object.find(key);
  return found != nullptr && found->is_string() ? printable(found->get<std::string>(), 100) : std::string();
}

void add_finding(const Json& row, const std::string& node, std::vector<FoundOnNodes>* out) {
  FoundOnNodes one{text_of(row, "name"), text_of(row, "version"), text_of(row, "here"), {}};
  if (one.name.empty()) return;
  const Json* probed = row.find("probed");
  if (one.found.empty()) one.found = probed != nullptr && probed->is_boolean() && probed->get<bool>() ? "no" : "-";
  auto same_entry = [&](const FoundOnNodes& other) { return other.name == one.name && other.version == one.version; };
  auto place = out->end();
  for (auto at = out->begin(); at != out->end(); ++at) {
    if (!same_entry(*at)) continue;
    if (at->found == one.found) return at->nodes.push_back(node);
    place = at + 1;  // all findings of one entry stay together
  }
  one.nodes.push_back(node);
  out->insert(place, std::move(one));
}

bool in_allocation() {
  const char* id = std::getenv("SLURM_JOB_ID");
  return id != nullptr && *id != '\0';
}

}  // namespace

NodeAnswers merge_answers(const std::string& text, const std::vector<std::string>& asked) {
  struct Told {
    std::vector<Json> rows;
    bool whole = false;
  };
  std::map<std::string, Told> told;  // by node
  std::vector<std::string> order;
  for (const std::string& line : split(text, '\n')) {
    Json object = Json::parse(line);
    if (!object.is_object()) continue;
    const std::string node = text_of(object, "node");
    if (node.empty()) continue;
    const auto [its, first] = told.try_emplace(node);
    if (first) order.push_back(node);
    if (its->second.whole) continue;  // the node has answered twice
    if (const Json* count = object.find("count"); count != nullptr && count->is_number_integer())
      its->second.whole = count->get<int64_t>() == static_cast<int64_t>(its->second.rows.size());
    else
      its->second.rows.push_back(std::move(object));
  }
  NodeAnswers answers;
  std::set<std::string> heard;
  for (const std::string& node : order) {
    if (!told[node].whole) continue;
    heard.insert(node);
    for (const Json& row : told[node].rows) add_finding(row, node, &answers.found);
  }
  // Answers come in any order, so nodes are sorted as they were asked.
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < asked.size(); ++i) place.emplace(asked[i], i);
  auto place_of = [&](const std::string& node) {
    auto found = place.find(node);
    return found == place.end() ? asked.size() : found->second;
  };
  for (FoundOnNodes& row : answers.found) {
    std::stable_sort(row.nodes.begin(), row.nodes.end(),
                     [&](const std::string& a, const std::string& b) { return place_of(a) < place_of(b); });
  }
  std::copy_if(asked.begin(), asked.end(), std::back_inserter(answers.silent),
               [&](const std::string& node) { return heard.count(node) == 0; });
  return answers;
}

Result<std::vector<std::string>> nodes_to_ask(const std::string& given) {
  std::string list = given;
  if (given == "all") {
    const char* own = in_allocation() ? std::getenv("SLURM_JOB_NODELIST") : nullptr;
    if (own != nullptr) {
      list = own;
    } else {
      CommandOptions options;
      options.without = slurm_cli::user_settings();
      DL_TRY_ASSIGN(const CommandResult shown,
                    run_command({"sinfo", "--noheader", "--states=idle,mixed,allocated", "--format=%N"}, options));
      list.clear();
      for (const std::string& line : split(shown.out, '\n')) {
        if (!trim(line).empty()) list.append(list.empty() ? "" : ",").append(trim(line));
      }
      if (list.empty()) return Error{Errc::kNotFound, "--nodes: sinfo names no node that can run a job"};
    }
  }
  auto nodes = expand_hostlist(list);
  if (!nodes) return std::move(nodes).error().with_context("--nodes");
  std::vector<std::string> once;  // a node may be in several partitions
  std::set<std::string> seen;
  for (std::string& node : *nodes) {
    if (seen.insert(node).second) once.push_back(std::move(node));
  }
  if (once.empty()) return Error{Errc::kInvalid, "--nodes: no node is named; allowed: LIST or all"};
  return once;
}

Result<NodeAnswers> ask_nodes(const std::vector<std::string>& nodes, bool hidden) {
  const std::string count = std::to_string(nodes.size());
  std::vector<std::string> argv = {"srun",
                                   "--nodes=" + count,
                                   "--ntasks=" + count,
                                   "--ntasks-per-node=1",
                                   "--nodelist=" + compress_hostlist(nodes),
                                   "--job-name=frameworks",
                                   "--mpi=none",
                                   "--input=none",
                                   "--kill-on-bad-exit=0",
                                   "--quiet"};
  if (in_allocation()) {
    argv.emplace_back("--overlap");
  } else {
    argv.insert(argv.end(), {"--time=5", "--immediate=60"});
  }
  const auto self = own_program();
  argv.insert(argv.end(), {self ? *self : "dlctl", "frameworks", "--findings"});
  if (hidden) argv.emplace_back("--hidden");
  CommandOptions options;
  options.timeout = kAskTimeout;
  options.max_output = kMaxAnswers;
  DL_TRY_ASSIGN(const CommandResult result, run_command(argv, options));
  NodeAnswers answers = merge_answers(result.out, nodes);
  if (answers.silent.size() < nodes.size()) return answers;
  std::string said(trim(result.err));
  said = said.substr(0, said.find('\n'));
  return Error{Errc::kBusy, "--nodes: none of the nodes answered; srun says: " + printable(said, 300)};
}

}  // namespace dl::ctl
