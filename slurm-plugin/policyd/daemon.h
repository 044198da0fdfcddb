// SPDX-License-Identifier: Apache-2.0
// The main loop of dlpolicyd: rounds of observing, deciding, planning and acting. One thread. It keeps no state that a
// restarted dlpolicyd could not read from Slurm, or find out anew.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "slurm-plugin/observe/history.h"
#include "slurm-plugin/observe/slurm_client.h"
#include "slurm-plugin/policyd/job_counts.h"
#include "slurm-plugin/policyd/log.h"
#include "slurm-plugin/policyd/memory.h"
#include "slurm-plugin/policyd/metrics.h"
#include "slurm-plugin/policyd/pace.h"
#include "slurm-plugin/policyd/planner.h"
#include "slurm-plugin/policyd/resizing.h"
#include "slurm-plugin/policyd/sealed_jobs.h"
#include "slurm-plugin/policyd/use.h"

namespace dl::policyd {

struct DaemonOptions {
  std::string config;        // dl.toml
  std::string state_file;    // path of the record of use, for the fair share; empty: none
  std::string history_file;  // path of the file for dlctl quota --history; empty: none
  std::string metrics_file;  // path of the file for node_exporter's textfile collector; empty: none
  bool once = false;
  bool dry_run = false;
  bool json = false;
  std::chrono::milliseconds interval{1000};
};

class Daemon {
 public:
  explicit Daemon(DaemonOptions options);

  // Reads dl.toml. On an error the former configuration stays in force.
  Status configure();
  // Runs until a signal ends the process (SIGHUP only makes it read dl.toml again), or for one round with `once`.
  // Errors: with `once` those of the round; kUnsupported if slurmctld has another version of Slurm than this was built
  // for.
  Status run();

 private:
  Status round();
  NewSizes decide(const observe::Records& records, observe::ClusterView* view);
  // `jobs`: how many there are in the queue.
  void act(const std::vector<Action>& actions, size_t jobs, int64_t now_s);
  void after_round(const observe::ClusterView& view, const observe::Records& records, const policy::Decision& decision);
  std::string metrics(const observe::ClusterView& view, const observe::Records& records,
                      const policy::Decision& decision);
  void tell_uncharged(const observe::ClusterView& view, const observe::Records& records);
  bool config_in_force();
  void keep_history(const policy::ClusterState& state);

  DaemonOptions options_;
  SiteConfig site_;
  policy::ClusterState site_state_;
  std::string text_;       // text of dl.toml as it was read
  std::string seen_mark_;  // identifies the file as it was when it was compared with text_
  bool seen_same_ = true;
  bool configured_ = false;
  bool orders_left_ = false;  // the last round had more changes to waiting jobs than there was time for
  int64_t kill_wait_s_ = 0;   // Slurm's KillWait at the time when the version was checked
  bool checked_ = false;      // slurmctld has the version that this was built for
  observe::Observer observer_;
  RecentUse use_;
  CheckpointTimes checkpoints_;
  StuckJobs stuck_;
  Resizing resizing_;
  SealedJobs sealed_;
  std::chrono::steady_clock::time_point sizes_next_;
  int64_t saved_s_ = 0;
  observe::History history_;
  int64_t history_saved_s_ = 0;
  int64_t gate_s_;   // every gate ends at most this many seconds after gated_s_
  int64_t gated_s_;  // Unix time at which gate_s_ was computed
  GatePace gate_pace_;
  LookPace look_pace_;
  Totals totals_;
  JobCounts counts_;
  std::string job_series_;  // of single jobs, as it was at job_series_s_
  int64_t job_series_s_ = 0;
  Complaint unreachable_, unsound_, no_metrics_, no_state_, no_history_;
  std::set<int64_t> uncharged_;          // jobs of undeclared tenants that have been logged
  std::map<int64_t, Complaint> failed_;  // complaints about failed actions, by job
};

}  // namespace dl::policyd
