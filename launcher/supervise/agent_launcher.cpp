// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/agent_launcher.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/contract/env_names.h"
#include "common/process/child_process.h"

extern char** environ;

namespace dl::supervise {
namespace {

// Open MPI's mpirun looks for ssh or rsh before it starts anything, and ends without them, as in a container, although
// it starts processes of its own machine without either. The names are those of Open MPI up to 4, 5 and later, and of
// PRRTE.
void let_mpirun_do_without_ssh(std::map<std::string, std::string>* set) {
  if (!find_program("ssh").empty() || !find_program("rsh").empty()) return;
  for (const char* name : {"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_plm_ssh_agent", "PRTE_MCA_plm_ssh_agent"})
    if (std::getenv(name) == nullptr) (*set)[name] = "false";  // a program that is there, and is not run
}

}  // namespace

std::string launcher_name(const plan::LaunchPlan& plan) {
  return plan.method == plan::LaunchMethod::kDirect ? "dl-agent" : plan.argv.front();
}

namespace {

// reads: the process gets dlrun's standard input, for learner 0; else it gets /dev/null.
Status spawn(const plan::LaunchPlan& plan, const std::vector<std::string>& argv,
             const std::map<std::string, std::string>& set, bool reads, std::map<pid_t, bool>* group) {
  SpawnOptions options;
  options.argv = argv;
  if (reads) options.stdin_fd = STDIN_FILENO;
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string name(*entry, std::strcspn(*entry, "="));
    bool scrubbed = std::find(plan.scrub.begin(), plan.scrub.end(), name) != plan.scrub.end();
    if (!scrubbed && set.count(name) == 0) environment.emplace_back(*entry);
  }
  for (const auto& [name, value] : set) {
    environment.push_back(name);
    environment.back().append("=").append(value);
  }
  options.environment = std::move(environment);
  // In a process group of its own, Ctrl-C does not reach it, but dlrun alone, which decides what to do.
  options.new_process_group = true;
  DL_TRY_ASSIGN(pid_t pid, spawn_process(options));
  (*group)[pid] = true;
  return {};
}

}  // namespace

Status AgentLauncher::start(const std::string& endpoint, const std::string& secret) {
  older_.insert(current_.begin(), current_.end());
  current_.clear();
  return start_all(plan_, number_, {{env::kControl, endpoint}, {env::kSecret, secret}}, &current_);
}

Status AgentLauncher::start_early(const plan::LaunchPlan& plan, const std::string& endpoint,
                                  const std::string& secret) {
  drop_early();
  early_ended_ = false;
  return start_all(plan, ++early_number_, {{env::kControl, endpoint}, {env::kSecret, secret}}, &early_);
}

void AgentLauncher::adopt() {
  older_.insert(current_.begin(), current_.end());
  current_ = std::exchange(early_, {});
  number_ = early_number_;
}

// Their number is not used again: agents that come late have that of a start that nobody awaits.
void AgentLauncher::drop_early() {
  if (early_.empty()) return;
  for (const auto& [pid, unused] : early_) ::kill(-pid, SIGTERM);
  older_.insert(early_.begin(), early_.end());
  early_.clear();
}

Status AgentLauncher::start_all(const plan::LaunchPlan& plan, int number, Set set, Group* group) {
  if (number > 0) set[env::kControlStart] = std::to_string(number);
  if (!plan.hostfile_path.empty()) DL_TRY(replace_file(plan.hostfile_path, plan.hostfile_text));
  if (plan.ports > 0) set[env::kHoldPorts] = std::to_string(plan.ports);
  const bool given = plan.reads_stdin;
  switch (plan.method) {
    case plan::LaunchMethod::kSrun:
      return start_steps(plan, std::move(set), group);
    case plan::LaunchMethod::kMpirun:
      set[env::kControlRank] = "OMPI_COMM_WORLD_RANK";
      let_mpirun_do_without_ssh(&set);
      return spawn(plan, plan.argv, set, given, group);
    case plan::LaunchMethod::kDirect:
      for (int rank = 0; rank < plan.world_size(); ++rank) {
        set[env::kControlRank] = std::to_string(rank);
        DL_TRY(spawn(plan, plan.argv, set, given && rank == 0, group));
      }
  }
  return {};
}

Status AgentLauncher::start_steps(const plan::LaunchPlan& plan, Set set, Group* group) {
  set[env::kControlRank] = "SLURM_PROCID";
  if (!plan.pmix_server.empty()) set[env::kPmixServer] = plan.pmix_server;
  if (!plan.pmix_server.empty() && plan.pool) set[env::kPmixRanks] = std::to_string(plan.learner_count());
  // With Slurm's default kind of PMIx fence, ranks of Open MPI 4.1 with PMIx 4.2 crashed in MPI_Init in 25 of 680
  // starts on a busy machine (Slurm 22.05.8); with tree fences, in 1 of 430.
  if (std::getenv("SLURM_PMIX_FENCE") == nullptr) set["SLURM_PMIX_FENCE"] = "tree";
  Set own = set;
  if (plan.under_slurm && plan.checkpoint) own[env::kMayRequeue] = "1";
  if (!plan.own_ranks.empty()) own[env::kControlRanks] = plan.own_ranks;
  DL_TRY(spawn(plan, plan.argv, own, plan.reads_stdin, group));
  set[env::kMayRequeue] = env::kNeverRequeue;
  for (const plan::CompanionStep& step : plan.companion_steps) {
    if (!step.hostfile_path.empty()) DL_TRY(replace_file(step.hostfile_path, step.hostfile_text));
    set[env::kControlRanks] = step.ranks;
    // srun takes the nodes of the allocation from its environment before it asks slurmctld, and refuses a step with
    // more nodes than those of the job.
    set["SLURM_JOB_NODELIST"] = step.node_list;
    DL_TRY(spawn(plan, step.argv, set, false, group));
  }
  return {};
}

std::vector<AgentLauncher::Ended> AgentLauncher::reap() {
  std::vector<Ended> ended;
  for (auto* group : {&current_, &older_, &early_}) {
    for (auto it = group->begin(); it != group->end();) {
      int status = 0;
      pid_t done = ::waitpid(it->first, &status, WNOHANG);
      if (done == 0 || (done < 0 && errno == EINTR)) {
        ++it;
        continue;
      }
      if (done > 0 && group == &current_) ended.push_back({done, status});
      if (group == &early_) early_ended_ = true;
      it = group->erase(it);
    }
  }
  return ended;
}

void AgentLauncher::kill_all(int signal) {
  for (const auto& [pid, unused] : current_) ::kill(-pid, signal);
  for (const auto& [pid, unused] : early_) ::kill(-pid, signal);
  kill_older(signal);
}

void AgentLauncher::kill_older(int signal) {
  for (const auto& [pid, unused] : older_) ::kill(-pid, signal);
}

}  // namespace dl::supervise
