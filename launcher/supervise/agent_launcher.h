// SPDX-License-Identifier: Apache-2.0
// Starts the agents as the plan says (one srun for each allocation, one mpirun, or one child per learner) and reaps
// what it started.
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

  // Starts agents of another plan beside those that run, for the next attempt. Only where start() has succeeded before.
  Status start_early(const plan::LaunchPlan& plan, const std::string& endpoint, const std::string& secret);
  // True as long as all that start_early() has started run.
  bool early_run() const { return !early_.empty() && !early_ended_; }
  int early_number() const { return early_number_; }  // env::kControlStart of these agents
  int number() const { return number_; }              // of the others
  void adopt();                                       // what start_early() has started counts as the newest start()
  void drop_early();                                  // it is ended

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
  bool any_running() const { return !current_.empty() || !older_.empty() || !early_.empty(); }
  // kill_all() signals the process groups of all starts, kill_older() only those of earlier ones.
  void kill_all(int signal);
  void kill_older(int signal);

 private:
  using Set = std::map<std::string, std::string>;  // variables
  using Group = std::map<pid_t, bool>;
  Status start_all(const plan::LaunchPlan& plan, int number, Set set, Group* group);
  Status start_steps(const plan::LaunchPlan& plan, Set set, Group* group);
  const plan::LaunchPlan& plan_;
  Group current_, older_, early_;
  int number_ = 0, early_number_ = 0;
  bool early_ended_ = false;  // one of early_ has ended
};

// "srun", "mpirun" or "dl-agent": what is started, for messages.
std::string launcher_name(const plan::LaunchPlan& plan);

}  // namespace dl::supervise
