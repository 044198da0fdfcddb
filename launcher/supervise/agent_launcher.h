// SPDX-License-Identifier: Apache-2.0
// Starts the agents as the plan says (one srun, one mpirun, or one child per learner) and reaps what it started.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/plan/launch_plan.h"

namespace dl::supervise {

class AgentLauncher {
 public:
  explicit AgentLauncher(const plan::LaunchPlan& plan) : plan_(plan) {}

  // endpoint: where dlrun listens; secret: the job's. Writes the hostfile first if the plan has one. Processes that
  // were started before an error keep running: the caller ends them with kill_all().
  Status start(const std::string& endpoint, const std::string& secret);

  struct Ended {
    pid_t pid;
    int wait_status;
  };
  // Reaps processes that have ended, without waiting, and returns those of the newest start(). Leaves other children
  // alone.
  std::vector<Ended> reap();
  // True while any process of the newest start() runs.
  bool running() const { return !current_.empty(); }
  // The same, earlier starts included.
  bool any_running() const { return !current_.empty() || !older_.empty(); }
  // kill_all() signals the process groups of all starts, kill_older() only those of earlier ones.
  void kill_all(int signal);
  void kill_older(int signal);

 private:
  // reads: the process gets dlrun's standard input, for learner 0; else it gets /dev/null.
  Result<pid_t> spawn(const std::vector<std::string>& argv, const std::map<std::string, std::string>& set, bool reads);
  const plan::LaunchPlan& plan_;
  std::map<pid_t, bool> current_, older_;
};

// "srun", "mpirun" or "dl-agent": what is started, for messages.
std::string launcher_name(const plan::LaunchPlan& plan);

}  // namespace dl::supervise
