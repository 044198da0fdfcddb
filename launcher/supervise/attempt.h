// SPDX-License-Identifier: Apache-2.0
// One attempt: its learners, what they have reported, and how they failed. Each attempt is a new value, so that nothing
// of an earlier one is left in it. No socket and no clock here: times are given, of the awake clock (awake_clock.h) but
// where a name says unix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/checkpoint_interval.h"
#include "common/contract/progress_page.h"
#include "common/site/site_config.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/record/job_state.h"
#include "launcher/supervise/first_cause.h"
#include "launcher/supervise/grace_budget.h"
#include "launcher/supervise/hang.h"
#include "launcher/supervise/idle_gpus.h"
#include "launcher/supervise/straggler.h"

namespace dl::supervise {

struct Learner {
  bool said_hello = false, started = false, ended = false, ever_attached = false;
  std::string host, address;
  int port = 0, coordinator_port = 0, ras_port = 0, pid = 0;
  std::vector<int> ports;
  record::JobState state = record::JobState::kDeploy;
  uint32_t page_state = 0;
  int64_t step = -1, saved_step = -1;
  uint64_t save_ms = 0, local_ms = 0, cost_ms = 0;  // as on the progress page
  int64_t step_seen_ms = 0;                         // when `step` was reported
  int exit = 0;
  bool hung = false;  // named as the cause of a stand-still: how it ends says nothing
  StepTimes times;
};

// A stand-still that is being looked into.
struct Hang {
  bool open = false;
  int64_t deadline_ms = 0;
  std::vector<StandStill> standing_still;
  std::map<int, std::vector<std::string>> lines;
};

class Attempt {
 public:
  Attempt() = default;
  // Each learner's host is where it is planned to be, until its agent says so.
  Attempt(const plan::LaunchPlan& plan, const SiteIdle& idle, int64_t now_ms, int64_t now_unix_ms);

  // For 10,000 learners it is not looked through all of them at each message: what holds of one holds for good.
  bool all_said_hello();
  bool all_started();  // or ended
  bool all_ended();

  // All learners run. True for the first time that this is told.
  bool all_run(int64_t now_ms);
  // Whether a periodic save is due: none was seen, nor tried, for so long while all learners ran.
  bool save_due(int64_t now_ms, int64_t every_ms) const;
  void save_tried(int64_t now_ms) { last_save_ms_ = now_ms; }
  double running_s(int64_t now_ms) const;

  // What a learner reports. Gives the train step that is now known to be saved, where that is news of this learner's.
  std::optional<int64_t> progressed(int rank, const Progress& progress, int64_t now_ms);
  void stands_at(int rank, const StepReport& report);

  SaveTimes save_times() const;  // of the slowest
  SaveCosts save_costs() const;
  int64_t newest_saved_step() const;

  std::vector<Learner> learners;  // by rank
  plan::RunFacts facts;
  int64_t started_ms = 0, started_unix_ms = 0;
  int refused_starts = 0;        // of its agents, by Slurm (refused_step.h)
  int64_t start_again_ms = 0;    // when the next one is due; 0: none is
  bool agents_have_pmi = false;  // Hello::pmi of any
  bool over_told = false;        // that all its learners have ended
  SlowLearners slow;
  IdleGpus idle;
  Hang hang;
  std::vector<Failure> failures;
  bool agent_lost = false, agent_silent = false;
  int64_t serving_until_ms = 0;  // when those that serve are ended; 0: others still run
  bool serving_over = false;

 private:
  template <typename Holds>
  bool all(size_t* below, Holds holds) {
    while (*below < learners.size() && holds(learners[*below])) ++*below;
    return *below == learners.size();
  }

  size_t hello_below_ = 0, started_below_ = 0, ended_below_ = 0;
  int64_t step_ms_ = 0;           // smoothed time of a train step
  int64_t running_since_ms_ = 0;  // 0: not all learners have started yet
  int64_t last_save_ms_ = 0;      // the last save seen, or tried
};

}  // namespace dl::supervise
