// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/agent_launcher.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

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

Result<pid_t> AgentLauncher::spawn(const std::vector<std::string>& argv, const std::map<std::string, std::string>& set,
                                   bool reads) {
  SpawnOptions options;
  options.argv = argv;
  if (reads) options.stdin_fd = STDIN_FILENO;
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string name(*entry, std::strcspn(*entry, "="));
    bool scrubbed = std::find(plan_.scrub.begin(), plan_.scrub.end(), name) != plan_.scrub.end();
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
  current_[pid] = true;
  return pid;
}

Status AgentLauncher::start(const std::string& endpoint, const std::string& secret) {
  older_.insert(current_.begin(), current_.end());
  current_.clear();
  if (!plan_.hostfile_path.empty()) DL_TRY(replace_file(plan_.hostfile_path, plan_.hostfile_text));
  std::map<std::string, std::string> set = {{env::kControl, endpoint}, {env::kSecret, secret}};
  if (plan_.ports > 0) set[env::kHoldPorts] = std::to_string(plan_.ports);
  if (plan_.under_slurm && plan_.checkpoint) set[env::kMayRequeue] = "1";
  const bool given = plan_.reads_stdin;
  switch (plan_.method) {
    case plan::LaunchMethod::kSrun:
      set[env::kControlRank] = "SLURM_PROCID";
      if (!plan_.pmix_server.empty()) set[env::kPmixServer] = plan_.pmix_server;
      // With Slurm's default kind of PMIx fence, ranks of Open MPI 4.1 with PMIx 4.2 crashed in MPI_Init in 25 of 680
      // starts on a busy machine (Slurm 22.05.8); with tree fences, in 1 of 430.
      if (std::getenv("SLURM_PMIX_FENCE") == nullptr) set["SLURM_PMIX_FENCE"] = "tree";
      DL_TRY(spawn(plan_.argv, set, given));
      break;
    case plan::LaunchMethod::kMpirun:
      set[env::kControlRank] = "OMPI_COMM_WORLD_RANK";
      let_mpirun_do_without_ssh(&set);
      DL_TRY(spawn(plan_.argv, set, given));
      break;
    case plan::LaunchMethod::kDirect:
      for (int rank = 0; rank < plan_.world_size(); ++rank) {
        set[env::kControlRank] = std::to_string(rank);
        DL_TRY(spawn(plan_.argv, set, given && rank == 0));
      }
      break;
  }
  return {};
}

std::vector<AgentLauncher::Ended> AgentLauncher::reap() {
  std::vector<Ended> ended;
  for (auto* group : {&current_, &older_}) {
    for (auto it = group->begin(); it != group->end();) {
      int status = 0;
      pid_t done = ::waitpid(it->first, &status, WNOHANG);
      if (done == 0 || (done < 0 && errno == EINTR)) {
        ++it;
        continue;
      }
      if (done > 0 && group == &current_) ended.push_back({done, status});
      it = group->erase(it);
    }
  }
  return ended;
}

void AgentLauncher::kill_all(int signal) {
  for (const auto& [pid, unused] : current_) ::kill(-pid, signal);
  kill_older(signal);
}

void AgentLauncher::kill_older(int signal) {
  for (const auto& [pid, unused] : older_) ::kill(-pid, signal);
}

}  // namespace dl::supervise
