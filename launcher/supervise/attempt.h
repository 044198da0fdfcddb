// SPDX-License-Identifier: Apache-2.0
// One attempt: its learners, what they have reported, and how they failed. Each attempt is a new value, so that nothing
// of an earlier one is left in it. There is no socket and no clock in this class: callers pass times of the awake clock
// (awake_clock.h), or Unix time where a name says so.
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
  uint32_t page_state = 0;  // ProgressPage::State
  int64_t step = -1, saved_step = -1;
  uint64_t save_ms = 0, local_ms = 0, cost_ms = 0;  // as on the progress page
  uint64_t noise = 0;                               // likewise
  int64_t step_seen_ms = 0;                         // when `step` was reported
  int exit = 0;
  bool hung = false;  // blamed for the hang: its exit status is ignored
  StepTimes times;
};

// A hang whose cause is being looked for.
struct Hang {
  bool open = false;
  int64_t deadline_ms = 0;  // until then answers of agents are waited for
  std::vector<StandStill> standing_still;
  std::map<int, std::vector<std::string>> lines;  // by rank: the last lines of its log
};

class Attempt {
 public:
  Attempt() = default;
  // The host of a learner is that of the plan until its agent names the real one.
  Attempt(const plan::LaunchPlan& plan, const SiteIdle& idle, int64_t now_ms, int64_t now_unix_ms);

  // Cheap enough to call for each message of 10,000 learners: what was once true of a learner stays true.
  bool all_said_hello();
  bool all_started();  // or ended
  bool all_ended();
  bool any_attached() const;  // a learner uses the checkpoint library, so it can be asked to save

  // To be called when all learners run. True only for the first call.
  bool all_run(int64_t now_ms);
  // Whether a periodic save is due: all learners ran for every_ms without a save or an attempt to save.
  bool save_due(int64_t now_ms, int64_t every_ms) const;
  void save_tried(int64_t now_ms) { last_save_ms_ = now_ms; }
  double running_s(int64_t now_ms) const;  // since all learners run; 0 before

  // Takes a learner's report. Returns its newest saved train step if this learner had not reported that one before.
  std::optional<int64_t> progressed(int rank, const protocol::Progress& progress, int64_t now_ms);
  void stands_at(int rank, const protocol::StepReport& report);  // takes a learner's answer to a request

  SaveTimes save_times() const;  // of the slowest learner
  SaveCosts save_costs() const;
  int64_t newest_saved_step() const;

  std::vector<Learner> learners;  // by rank
  plan::RunFacts facts;
  int64_t started_ms = 0, started_unix_ms = 0;
  int refused_starts = 0;        // how often Slurm refused the agents' job step (refused_step.h)
  int64_t start_again_ms = 0;    // when that job step is tried again; 0: it is not
  bool agents_have_pmi = false;  // an agent has reported that (Hello::pmi)
  bool over_told = false;        // AttemptOver was sent to the states of the run
  SlowLearners slow;
  IdleGpus idle;
  Hang hang;
  std::vector<Failure> failures;
  bool agent_lost = false, agent_silent = false;
  int64_t serving_until_ms = 0;  // when learners that serve others are ended; 0: the others still run
  bool serving_over = false;     // learners that serve others are being ended

 private:
  template <typename Holds>
  bool all(size_t* below, Holds holds) {
    while (*below < learners.size() && holds(learners[*below])) ++*below;
    return *below == learners.size();
  }

  size_t hello_below_ = 0, started_below_ = 0, ended_below_ = 0;
  int64_t step_ms_ = 0;           // smoothed time of a train step
  int64_t running_since_ms_ = 0;  // 0: not all learners have started yet
  int64_t last_save_ms_ = 0;      // of the last save, or attempt to save
};

}  // namespace dl::supervise
