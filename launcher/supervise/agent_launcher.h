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

  // endpoint: where dlrun listens; secret: the job's. Writes the hostfile first if the plan has one. What could be
  // started before an error keeps running: the caller ends it with kill_all().
  Status start(const std::string& endpoint, const std::string& secret);

  struct Ended {
    pid_t pid;
    int wait_status;
  };
  // Reaps what has ended, without waiting. Only processes of ours: others' children are left alone.
  std::vector<Ended> reap();
  // The processes of the newest start(). Empty when all of them have ended.
  bool running() const { return !current_.empty(); }
  // Those of earlier starts too.
  bool any_running() const { return !current_.empty() || !older_.empty(); }
  // Signals the process groups of all, and of those of earlier starts alone.
  void kill_all(int signal);
  void kill_older(int signal);

 private:
  // reads: it gets standard input, for learner 0; else it has /dev/null.
  Result<pid_t> spawn(const std::vector<std::string>& argv, const std::map<std::string, std::string>& set, bool reads);
  const plan::LaunchPlan& plan_;
  std::map<pid_t, bool> current_, older_;
};

// "srun", "mpirun" or "dl-agent": what is started, for messages.
std::string launcher_name(const plan::LaunchPlan& plan);

}  // namespace dl::supervise
