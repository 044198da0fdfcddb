// SPDX-License-Identifier: Apache-2.0
#include "launcher/preflight/on_nodes.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "common/base/atomic_file.h"
#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/slurm_cli/refused_step.h"

namespace dl::preflight {
namespace {

constexpr size_t kMaxOutput = 16 << 20;
constexpr char kRefused[] = "Unable to create step";  // a message of srun's

// The srun of one task on each node. Its output goes to a file, so that it can be read even if a node never answers.
std::vector<std::string> srun_line(const RunInput& input, const std::vector<plan::Node>& nodes, const std::string& mpi,
                                   const std::string& output) {
  std::vector<std::string> argv = {"env"};
  for (const std::string& name : input.scrub) {
    argv.emplace_back("-u");
    argv.push_back(name);
  }
  const std::string count = std::to_string(nodes.size());
  argv.insert(argv.end(), {"srun", "--mpi=" + mpi, "--job-name=preflight", "--nodes=" + count, "--ntasks=" + count,
                           "--ntasks-per-node=1", "--nodelist=" + compress_hostlist(names_of(nodes)), "--overlap",
                           "--cpu-bind=none", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--export=ALL",
                           "--quiet", "--output=" + output});
  if (const int gpus = gpus_of_each(nodes); gpus > 0) argv.push_back("--gres=gpu:" + std::to_string(gpus));
  return argv;
}

}  // namespace

int gpus_of_each(const std::vector<plan::Node>& nodes) {
  const int gpus = nodes.front().gpus;
  const bool same = std::all_of(nodes.begin(), nodes.end(), [&](const plan::Node& node) { return node.gpus == gpus; });
  return same ? std::max(gpus, 0) : 0;
}

std::vector<std::string> names_of(const std::vector<plan::Node>& nodes) {
  std::vector<std::string> names;
  names.reserve(nodes.size());
  for (const plan::Node& node : nodes) names.push_back(node.name);
  return names;
}

Result<std::string> run_on_nodes(const RunInput& input, const std::vector<plan::Node>& nodes, const std::string& mpi,
                                 const std::vector<std::string>& program, std::chrono::seconds limit) {
  CommandOptions options;
  options.timeout = limit;
  if (!input.under_slurm) {
    DL_TRY_ASSIGN(CommandResult result, run_command(program, options));
    if (!result.ok())
      return Error{Errc::kIo,
                   program.front().substr(program.front().rfind('/') + 1) + ": " + printable(trim(result.err), 300)};
    return result.out;
  }
  static std::atomic<int> next{0};
  const std::string output = input.job_dir + "/preflight-" + std::to_string(next++) + ".out";
  std::vector<std::string> argv = srun_line(input, nodes, mpi, output);
  argv.insert(argv.end(), program.begin(), program.end());
  for (int refused = 1;; ++refused) {
    ::unlink(output.c_str());
    const auto result = run_command(argv, options);
    auto text = read_small_file(output, kMaxOutput);
    ::unlink(output.c_str());
    // If a node has not answered, the other nodes' output shows which one.
    if (text && !text->empty()) return text;
    if (!result) return result.error();
    const auto pause = slurm_cli::pause_after_refusal(refused);
    if (slurm_cli::may_be_refused(result->exit_code) && result->err.find(kRefused) != std::string::npos && pause) {
      std::this_thread::sleep_for(*pause);
      continue;
    }
    if (!result->ok() && !result->err.empty())
      return Error{Errc::kIo, printable(trim(result->err.substr(0, result->err.find('\n'))), 300)};
    return text;
  }
}

}  // namespace dl::preflight
