// SPDX-License-Identifier: Apache-2.0
// dlctl frameworks: prints the catalogue, and what of it is installed on this machine or on other nodes.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/json/json.h"
#include "common/process/child_process.h"
#include "common/site/site_config.h"
#include "frameworks/catalogue.h"
#include "frameworks/placeholders.h"
#include "launcher/ctl/framework_nodes.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

constexpr std::chrono::seconds kProbeTimeout{20};

struct FrameworksOptions {
  bool json = false;
  bool hidden = false;
  bool no_probe = false;
  bool findings = false;  // print what framework_nodes reads
  std::string nodes;      // nodes to ask: a list, or "all"; empty: this machine
};

// A row of the output: an entry, or one version of it.
struct Row {
  const FrameworkEntry* entry = nullptr;
  const FrameworkVersion* version = nullptr;  // nullptr: any version
  std::string here;                           // what the probe printed, empty if it did not run or failed
  std::string fault;                          // why the probe failed
  bool probed = false;
};

// Runs the entry's probe as a user's job would: after the version's activation, through sh.
void probe(Row* row) {
  if (row->entry->probe.empty()) return;
  std::string script;
  if (row->version != nullptr && !row->version->activate.empty()) script = row->version->activate + "\n";
  script += row->entry->probe;
  CommandOptions options;
  options.timeout = kProbeTimeout;
  options.max_output = 65536;
  for (const auto& [name, value] : row->version != nullptr ? row->version->environment : row->entry->environment) {
    if (!has_placeholders(value)) {  // a value with placeholders is for learners
      options.environment.push_back(name);
      options.environment.back().append("=").append(value);
    }
  }
  row->probed = true;
  auto result = run_command({"/bin/sh", "-c", script}, options);
  if (!result) {
    row->fault = result.error().text;
    return;
  }
  const std::string first(trim(std::string_view(result->out).substr(0, result->out.find('\n'))));
  if (result->ok() && !first.empty()) {
    row->here = printable(first, 60);
    return;
  }
  // The last line of a Python traceback names the error.
  std::string last;
  for (const std::string& line : split(result->err, '\n')) {
    if (!trim(line).empty()) last = std::string(trim(line));
  }
  row->fault = last.empty() ? "exit status " + std::to_string(result->exit_code) : printable(last, 200);
}

// Runs four probes at a time: importing a large framework takes seconds, and more on a busy file system.
void probe_all(std::vector<Row>* rows) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  const size_t count = std::min<size_t>(4, rows->size());
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < rows->size(); at = next++) probe(&(*rows)[at]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void print_rows(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> lines{{"NAME", "VERSION", "HERE", "STARTED BY", "SUMMARY"}};
  for (const Row& row : rows) {
    std::string version = row.version == nullptr ? "any" : row.version->version;
    if (row.version != nullptr && row.version->version == row.entry->default_version) version += " (default)";
    lines.push_back({row.entry->name, version,
                     !row.probed        ? "-"
                     : row.here.empty() ? "no"
                                        : row.here,
                     row.entry->launch == "mpi" ? "mpirun/PMIx" : "agent", printable(row.entry->summary, 100)});
  }
  std::fputs(table(lines).c_str(), stdout);
  for (const Row& row : rows) {
    if (!row.fault.empty()) std::printf("\n%s is not usable here: %s", row.entry->name.c_str(), row.fault.c_str());
  }
  if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !row.fault.empty(); })) std::puts("");
}

Json to_json(const std::vector<Row>& rows) {
  Json json = Json::array();
  for (const Row& row : rows) {
    Json item;
    item["name"] = row.entry->name;
    item["version"] = row.version == nullptr ? "" : row.version->version;
    item["default"] = row.version == nullptr || row.version->version == row.entry->default_version;
    item["hidden"] = row.version != nullptr && row.version->hidden;
    item["summary"] = row.entry->summary;
    item["families"] = row.entry->families;
    item["launch"] = row.entry->launch;
    item["ports"] = row.entry->ports;
    item["probed"] = row.probed;
    item["here"] = row.here;
    item["fault"] = row.fault;
    json.push_back(std::move(item));
  }
  return json;
}

// Prints with `indent` blanks, or in one line if that is -1.
void print_json(const Json& json, int indent) {
  std::puts(json.dump(indent).c_str());
}

// Prints the lines that merge_answers() reads.
void print_findings(const std::vector<Row>& rows) {
  constexpr size_t kMostFound = 300;
  for (const Row& row : rows) {
    Json json;
    json["node"] = node_name();
    json["name"] = row.entry->name;
    json["version"] = row.version != nullptr ? row.version->version : std::string();
    json["here"] = printable(row.here, kMostFound);
    json["probed"] = row.probed;
    print_json(json, -1);
  }
  print_json({{"node", node_name()}, {"count", rows.size()}}, -1);
}

void print_answers(const NodeAnswers& answers) {
  std::vector<std::vector<std::string>> lines{{"NAME", "VERSION", "FOUND", "NODES"}};
  for (const FoundOnNodes& row : answers.found) {
    lines.push_back({row.name, row.version.empty() ? "any" : row.version, row.found, compress_hostlist(row.nodes)});
  }
  std::fputs(table(lines).c_str(), stdout);
  if (!answers.silent.empty()) std::printf("\nno answer from %s\n", compress_hostlist(answers.silent).c_str());
}

Status run_on_nodes(const FrameworksOptions& options) {
  DL_TRY_ASSIGN(const std::vector<std::string> nodes, nodes_to_ask(options.nodes));
  DL_TRY_ASSIGN(const NodeAnswers answers, ask_nodes(nodes, options.hidden));
  if (!options.json) {
    print_answers(answers);
    return {};
  }
  Json json;
  json["frameworks"] = Json::array();
  for (const FoundOnNodes& row : answers.found) {
    json["frameworks"].push_back(
        {{"name", row.name}, {"version", row.version}, {"found", row.found}, {"nodes", row.nodes}});
  }
  json["silent"] = answers.silent;
  print_json(json, 2);
  return {};
}

Status run(const FrameworksOptions& options) {
  if (!options.nodes.empty()) return run_on_nodes(options);
  DL_TRY_ASSIGN(const SiteConfig site, load_site_config(default_site_config_path(true)));
  DL_TRY_ASSIGN(const Catalogue catalogue, Catalogue::load(site.catalogue));
  std::vector<Row> rows;
  for (const auto& [name, entry] : catalogue.entries()) {
    if (entry.versions.empty()) rows.push_back({&entry, nullptr, "", "", false});
    for (const FrameworkVersion& version : entry.versions) {
      if (!version.hidden || options.hidden) rows.push_back({&entry, &version, "", "", false});
    }
  }
  if (!options.no_probe) probe_all(&rows);
  if (options.findings) {
    print_findings(rows);
  } else if (options.json) {
    print_json(to_json(rows), 2);
  } else if (rows.empty()) {
    std::string folders;
    for (const std::string& folder : site.catalogue) folders += (folders.empty() ? "" : ", ") + folder;
    std::printf("the catalogue is empty; looked in %s\n", folders.c_str());
  } else {
    print_rows(rows);
  }
  return {};
}

}  // namespace

Run add_frameworks(CommandLine* line) {
  auto options = std::make_shared<FrameworksOptions>();
  line->flag("--hidden", &options->hidden, "also show versions that can be used but are not listed");
  line->flag("--no-probe", &options->no_probe, "do not look for what is installed here");
  line->option("--nodes", &options->nodes, "what is installed on these nodes: a list, or all (asked by srun)");
  line->flag("--json", &options->json, "for programs: an array of objects");
  // --nodes runs dlctl with this flag on each node.
  line->flag("--findings", &options->findings, "").hidden();
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
