// SPDX-License-Identifier: Apache-2.0
// dl-preflight: checks the node that it runs on, and prints one line of JSON (report.h). dlrun starts one on each node
// of a job; an admin may start it by hand.
//   dl-preflight [--full] [--split] [--max-age SECONDS] [--job-dir PATH] [--gpus N] [--peers NAME,NAME]
// Exit status: 0 when the report was printed, whatever it reports; 2 for a wrong option.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "common/base/parse.h"
#include "common/base/standard_files.h"
#include "common/base/this_process.h"
#include "common/cli/command_line.h"
#include "config.h"
#include "launcher/preflight/cache.h"
#include "launcher/preflight/checks.h"

namespace {

using namespace dl::preflight;

// A check that hangs (a dead file server) must not make the others wait: SIGALRM ends this process, and a node without
// a report counts as bad.
constexpr unsigned kQuickLimit = 10, kFullLimit = 40;

// All checks; rates come from the cache if they are recent enough.
NodeReport full_report(const std::string& node, const CheckInput& input, std::chrono::seconds max_age) {
  NodeReport report = run_checks({Depth::kQuick, Depth::kFullEachTime}, node, input);
  const std::string folder = default_cache_folder();
  auto measured = cached_report(folder, node, report.time_ms, max_age);
  if (!measured) {
    measured = run_checks({Depth::kFull}, node, input);
    keep_report(folder, *measured);
  }
  for (CheckResult& check : measured->checks) report.checks.push_back(std::move(check));
  return report;
}

}  // namespace

int main(int argc, char** argv) try {
  dl::open_closed_standard_files();
  bool full = false, split = false;
  int64_t max_age = 0;
  std::string peers;
  CheckInput input;
  input.job_dir = ".";
  dl::CommandLine line("dl-preflight",
                       "Check this node before a job starts on it, and print what was found as a line of JSON.");
  line.version("-V,--version", std::string("dl-preflight (slurm-dl) ") + PACKAGE_VERSION);
  line.flag("--full", &full, "Also measure the speed of the node");
  line.flag("--split", &split, "Print a short line for each check");
  line.option("--max-age", &max_age, "With --full: use measurements that are not older")
      .form("SECONDS")
      .between(0, 9e18L);
  line.option("--job-dir", &input.job_dir, "Folder that must be writable from here").form("PATH");
  line.option("--gpus", &input.gpus, "How many GPUs must be here").form("N");
  line.option("--peers", &peers, "Nodes whose names must be resolved here").form("NAME,NAME");
  const dl::Result<std::string> answer = line.parse(argc, argv);
  if (!answer) {
    std::fputs(line.complaint(answer.error()).c_str(), stderr);
    return 2;
  }
  if (!answer->empty()) return std::fputs(answer->c_str(), stdout) >= 0 ? 0 : 1;
  for (const std::string& peer : dl::split(peers, ','))
    if (!peer.empty()) input.peers.push_back(peer);
  ::alarm(full ? kFullLimit : kQuickLimit);
  const std::string node = dl::node_name();
  const NodeReport report =
      full ? full_report(node, input, std::chrono::seconds(max_age)) : run_checks({Depth::kQuick}, node, input);
  const std::string text = split ? format_report_lines(report) : format_report(report) + "\n";
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "dl-preflight: %s\n", e.what());
  return 1;
}
