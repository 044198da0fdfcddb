// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/companion_job.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "common/contract/companion_hint.h"
#include "launcher/slurm_cli/slurm_cli.h"
#include "launcher/slurm_cli/watch_script.h"
#include "launcher/supervise/notice.h"

namespace dl::supervise {
namespace {

// What a companion has in common with the job: keys of scontrol, and options of sbatch.
struct Row {
  const char* key;
  const char* option;
};
constexpr Row kShared[] = {
    {"Partition", "--partition="},     {"Account", "--account="},         {"QOS", "--qos="},
    {"Reservation", "--reservation="}, {"Features", "--constraint="},     {"ExcNodeList", "--exclude="},
    {"MinMemoryNode", "--mem="},       {"MinMemoryCPU", "--mem-per-cpu="}};

// How often a companion looks whether the job still runs.
constexpr int kLookS = 5;

}  // namespace

std::string companion_name(const std::string& job_id, int run) {
  return "dl-companion-" + job_id + (run > 1 ? "." + std::to_string(run) : "");
}

std::vector<std::string> companion_options(const slurm_cli::JobText& job, const plan::LaunchPlan& plan, int nodes,
                                           const std::string& name, int64_t now_s,
                                           const std::optional<OfferedNodes>& offered) {
  std::vector<std::string> options = {"--job-name=" + name, "--nodes=" + std::to_string(nodes),
                                      "--exclusive",        "--no-requeue",
                                      "--output=/dev/null", "--chdir=" + plan.job_dir};
  // job_submit_dl gives it the partition or QOS of the borrow tier, and refuses another one.
  const auto of_tier = [&](const std::string& key) {
    return offered && ((key == "Partition" && !offered->partition.empty()) || (key == "QOS" && !offered->qos.empty()));
  };
  options.push_back("--comment=" + companion_hint(slurm_cli::own_id(job)));
  if (offered) options.emplace_back("--dl-tier=borrow");
  for (const Row& row : kShared) {
    const std::string value = of_tier(row.key) ? "" : slurm_cli::given(job.value(row.key));
    if (!value.empty() && value != "0") options.push_back(row.option + value);
  }
  int tasks = 1;
  for (const plan::PlannedNode& node : plan.nodes) tasks = std::max(tasks, node.learners - node.servers);
  options.push_back("--ntasks-per-node=" + std::to_string(tasks));
  if (plan.cpus_per_learner > 0) options.push_back("--cpus-per-task=" + std::to_string(plan.cpus_per_learner));
  if (plan.gpus_per_learner > 0)
    options.push_back(fmt::format("--gres=gpu:{}{}{}", plan.gpu_type, plan.gpu_type.empty() ? "" : ":",
                                  tasks * plan.gpus_per_learner));
  // Not longer than the job itself, and Slurm takes no limit below a minute.
  if (const auto end = slurm_cli::parse_slurm_time(job.value("EndTime")))
    options.push_back("--time=" + std::to_string(std::max<int64_t>(1, (*end - now_s) / 60)));
  return options;
}

std::string companion_script(const slurm_cli::JobText& job) {
  const std::string id = slurm_cli::own_id(job);
  const std::string& restarts = job.value("Restarts");
  return fmt::format(R"(#!/bin/sh
# Learners of job {0} run here. This allocation ends once that job does, or goes back into the queue.
{1}while :; do
  look
  case $state in
    RUNNING | SUSPENDED | STOPPED | SIGNALING | RESIZING | STAGE_OUT | CONFIGURING) [ "$restarts" = "{2}" ] || exit 0 ;;
    ?*) exit 0 ;;
  esac
  sleep {3}
done
)",
                     id, slurm_cli::look_function(id), restarts.empty() ? "0" : restarts, kLookS);
}

CompanionState companion_state(const slurm_cli::JobText& companion) {
  using Kind = CompanionState::Kind;
  CompanionState state;
  const slurm_cli::JobInfo info = slurm_cli::job_info_of(companion);
  if (info.state == "PENDING" || info.state == "CONFIGURING") return state;
  if (info.state == "COMPLETING") {
    state.kind = Kind::kEnds;
    state.why = "Slurm ends it";
  } else if (info.state != "RUNNING" && info.state != "SUSPENDED") {
    state.kind = Kind::kOver;
    state.why = "it is " + info.state;
  } else if (const auto deadline_s = yield_deadline_s(info.admin_comment)) {
    state.kind = Kind::kEnds;
    state.why = "its GPUs are taken back for job " + yield_claimant(info.admin_comment);
    state.deadline_ms = *deadline_s * 1000;
  } else if (auto nodes = plan::nodes_of_companion(companion)) {
    state.kind = Kind::kRuns;
    state.nodes = std::move(*nodes);
  }
  return state;
}

}  // namespace dl::supervise
