// SPDX-License-Identifier: Apache-2.0
#include "launcher/preflight/replan.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "common/base/atomic_file.h"
#include "common/base/hostlist.h"
#include "common/contract/exit_codes.h"
#include "common/contract/job_directory.h"
#include "launcher/preflight/run.h"
#include "launcher/record/event_log.h"
#include "launcher/record/job_dir.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::preflight {
namespace {

void tell(const std::string& line) {
  std::fprintf(stderr, "dlrun: preflight: %s\n", line.c_str());
}

// The folder of the programs: that of the agent, or, in a build tree, preflight beside it.
std::string program_folder(const std::string& agent_path) {
  std::string folder = agent_path.substr(0, agent_path.rfind('/'));
  const std::string built = folder + "/../preflight";
  return ::access((folder + "/dl-preflight").c_str(), X_OK) != 0 && ::access(built.c_str(), X_OK) == 0 ? built : folder;
}

// Puts a batch job that Slurm may requeue back into the queue, without these nodes. If the nodes cannot be excluded,
// the job is held, since it could get them again and again.
int requeue_without(const OtherPlan& other, const plan::LaunchPlan& plan, const std::vector<std::string>& bad) {
  const std::string& job_id = plan.job_id;
  const std::string names = compress_hostlist(bad);
  ::signal(SIGTERM, SIG_IGN);  // Slurm sends it when it ends the job; the messages are printed first
  const auto job = slurm_cli::show_job(job_id);
  if (!job || !job->batch || !job->requeue) {
    tell(
        fmt::format("the rest of the allocation does not hold the learners: submit it again with --exclude={}", names));
    return kExitNodeLost;
  }
  const std::string reason = fmt::format("the job goes back into the queue and stays away from {}", names);
  tell(reason);
  ignore(record::record_put_back(record::JobDir(plan.job_dir).events(), false, "preflight: " + reason, ""),
         "the requeue matters more");
  const auto ask = [&](const std::string& excluded) {
    const std::string all = (job->excluded.empty() ? "" : job->excluded + ",") + excluded;
    return slurm_cli::requeue(job_id, false, slurm_cli::requeue_delay(), all);
  };
  if (Status put_back = other.put_back(names, ask); !put_back) {
    ignore(slurm_cli::hold(job_id), "nothing more can be done");
    tell("the job could not be put back into the queue: " + put_back.error().text);
  }
  return kExitNodeLost;
}

RunInput run_input(const plan::PlanInput& input, const plan::LaunchPlan& plan) {
  RunInput run;
  run.mode = input.request.preflight;
  run.nodes = input.allocation.nodes;
  run.under_slurm = plan.under_slurm;
  run.job_dir = plan.job_dir;
  run.program_folder = program_folder(input.agent_path);
  run.mpi_plugin = input.mpi_plugin;
  run.scrub = plan.scrub;
  return run;
}

std::string line_of(const Finding& finding) {
  return fmt::format("{}: {} ({})", finding.node, finding.text, grade_name(finding.grade));
}

}  // namespace

CheckedAgain check_again(const plan::PlanInput& input, const plan::LaunchPlan& next,
                         const std::vector<std::string>& suspects) {
  RunInput run = run_input(input, next);
  run.nodes.clear();
  for (const plan::Node& node : input.allocation.nodes)
    if (std::any_of(next.nodes.begin(), next.nodes.end(),
                    [&](const plan::PlannedNode& planned) { return planned.name == node.name; }))
      run.nodes.push_back(node);
  CheckedAgain checked;
  const auto outcome = run_again(run, suspects);
  if (!outcome) {
    // The job goes on, as before the first attempt: checks that protect a job should not make it fail.
    checked.lines.push_back("the nodes could not be checked: " + outcome.error().text);
    return checked;
  }
  ignore(write_file_atomically(run.job_dir + "/" + job_directory::kPreflight, format_outcome(*outcome)),
         "for people only");
  for (const Finding& finding : outcome->findings) checked.lines.push_back(line_of(finding));
  checked.bad = bad_nodes(outcome->findings);
  return checked;
}

std::optional<int> check_nodes(const OtherPlan& other, plan::PlanInput* input, bool quiet, plan::LaunchPlan* plan) {
  if (input->request.preflight == PreflightMode::kOff) return std::nullopt;
  const RunInput run = run_input(*input, *plan);
  const auto outcome = run_preflight(run);
  if (!outcome) {
    // The job goes on: checks that protect a job should not make it fail.
    tell("the nodes could not be checked: " + outcome.error().text);
    return std::nullopt;
  }
  ignore(write_file_atomically(run.job_dir + "/" + job_directory::kPreflight, format_outcome(*outcome)),
         "for people only");
  for (const Finding& finding : outcome->findings)
    if (!quiet || finding.grade == Grade::kBad) tell(line_of(finding));
  const std::vector<std::string> bad = bad_nodes(outcome->findings);
  if (bad.empty()) return std::nullopt;
  if (!run.under_slurm) return kExitNodeLost;

  if (auto without = other.without(bad, *plan, input)) {
    tell(plan::describe_without(bad, *without));
    *plan = *std::move(without);
    other.settle(*plan);
    return std::nullopt;
  }
  return requeue_without(other, *plan, bad);
}

}  // namespace dl::preflight
