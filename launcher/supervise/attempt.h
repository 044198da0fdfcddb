// SPDX-License-Identifier: Apache-2.0
// One attempt: its learners, what they have reported, and how they failed. Each attempt is a new value, so that nothing
// of an earlier one is left in it. There is no socket and no clock in this class: callers pass times of the awake clock
// (awake_clock.h), or Unix time where a name says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/contract/checkpoint_interval.h"
#include "common/contract/progress_page.h"
#include "common/scaling/pace_hint.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/record/job_state.h"
#include "launcher/supervise/first_cause.h"
#include "launcher/supervise/grace_budget.h"
#include "launcher/supervise/straggler.h"

namespace dl::supervise {

struct Learner {
  bool said_hello = false, started = false, ended = false, ever_attached = false;
  bool in_reserve = false;  // a place of an elastic pool (LaunchPlan::is_place()) at which no server is to run now
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

// Writing is done by named operations alone. Times without a unit of their own are of the awake clock.
class Attempt {
 public:
  Attempt() = default;
  // The host of a learner is that of the plan until its agent names the real one.
  Attempt(const plan::LaunchPlan& plan, int64_t now_ms, int64_t now_unix_ms);
  // The same attempt with other agents: all learners begin anew. What it is called (facts()) stays.
  void begin_again(const plan::LaunchPlan& plan, int64_t now_ms, int64_t now_unix_ms);

  int64_t started_ms() const { return started_ms_; }  // 0: no attempt has begun
  int64_t started_unix_ms() const { return started_unix_ms_; }

  // ---- its learners, by rank
  const std::vector<Learner>& learners() const { return learners_; }
  const Learner& learner(int rank) const { return learners_[static_cast<size_t>(rank)]; }
  int deciding() const { return static_cast<int>(deciding_); }  // as LaunchPlan::deciding()
  bool serves(int rank) const { return rank >= deciding(); }

  // Whether this is the Hello of an agent that has not come yet.
  bool awaits(const protocol::Hello& hello) const;
  void said_hello(int rank, const protocol::Hello& hello);  // its agent has come
  void started(int rank, int pid);
  // To be called when all learners run. True only for the first call.
  bool all_run(int64_t now_ms);
  double running_s(int64_t now_ms) const;  // since all learners run; 0 before
  // Takes a learner's report. Returns its newest saved train step if this learner had not reported that one before.
  std::optional<int64_t> progressed(int rank, const protocol::Progress& progress, int64_t now_ms);
  void stands_at(int rank, const protocol::StepReport& report);  // takes a learner's answer to a request
  void blame_for_hang(int rank);                                 // its exit status will be ignored

  // ---- their ends. What has ended stays so.
  void end(int rank);
  // It has ended, and that was no failure; stopped: it had been asked to. If none that decides is left, those that
  // serve (LaunchPlan::serves()) have a second from now on to end by themselves.
  void end_well(int rank, int exit, bool stopped, int64_t now_ms);
  // Ends those whose agents have not said hello.
  void end_unheard();

  // ---- the places of an elastic pool. Each begins in reserve: its agent has come, or comes, and waits.
  bool is_place(int rank) const { return static_cast<size_t>(rank) >= first_place_; }
  int first_place() const { return static_cast<int>(first_place_); }  // as many learners there are, if there is no pool
  bool only_servers_left() const { return serving_until_ms_ != 0; }
  void call_up(int rank);     // a server is to start there
  void to_reserve(int rank);  // its server has ended; its agent begins anew, and says hello once more
  // No server is started any more. Returns those in reserve, which count as ended now.
  std::vector<int> end_reserve();
  // It has failed, which says nothing of whether it has ended. Returns the failure with its rank, time and train step,
  // and with its host if there are others: valid until the next failure. The learner gets its state and exit status.
  const Failure& fail(int rank, Failure failure, int64_t now_ms);
  // Ends a learner that is given up, as all that have not ended, for this reason. to_end: they were to end before.
  // Returns its failure. It is not to blame (Failure::asked) if it was to end, or if agents did not connect in time
  // (kNoAgent) and its own did. For another reason than kNoAgent its agent counts as lost, too.
  Failure give_up(int rank, const Failure& why, bool to_end);
  // A failure of the attempt as a whole.
  void fail(Failure failure) { failures_.push_back(std::move(failure)); }
  const std::vector<Failure>& failures() const { return failures_; }
  std::optional<Failure> cause() const { return first_cause(failures_); }
  // True once: at the first call after all learners have ended.
  bool is_over();

  // Cheap enough to call for each message of 10,000 learners: what was once true of a learner stays true.
  bool all_said_hello();
  bool all_started();  // or ended
  bool all_ended();
  bool any_attached() const;  // a learner uses the checkpoint library, so it can be asked to save
  // Of the learners that decide (LaunchPlan::deciding()) some still run, and none of those can be asked to stop.
  bool deaf_are_left() const;

  // ---- its agents
  void lose_agent(int rank);                    // it counts as lost, and so its learner has ended
  void silence_agent(int rank);                 // the same, because it has said nothing for too long
  void dismiss_agents() { dismissed_ = true; }  // none may serve the next attempt, although none was lost
  bool agent_lost() const { return agent_lost_; }
  bool agent_silent() const { return agent_silent_; }
  // Whether they may serve the next attempt.
  bool agents_may_stay() const { return !agents_have_pmi_ && !agent_lost_ && !dismissed_; }
  // Whether an agent whose learner has ended is kept for the next attempt. With PMIx servers it is kept even if no
  // restart can follow, since a server ends together with the agent of its node's first learner.
  bool agent_stays(const plan::LaunchPlan& plan, int restarts_done) const {
    return !agents_have_pmi_ && (restarts_done < plan.restarts || !plan.pmix_server.empty());
  }

  // ---- learners that serve others (LaunchPlan::serves())
  // True if the others have ended and these have had their time (end_well()): they are to be ended now.
  bool end_serving(int64_t now_ms);
  // It serves, and end_serving() was true, so that it is no failure if dlrun ends it.
  bool served(int rank) const { return serving_over_ && serves(rank); }

  // ---- saves
  // Whether a periodic save is due: all learners ran for every_ms without a save or an attempt to save.
  bool save_due(int64_t now_ms, int64_t every_ms) const;
  void save_tried(int64_t now_ms) { last_save_ms_ = now_ms; }
  SaveTimes save_times() const;  // of the slowest learner
  SaveCosts save_costs() const;
  int64_t newest_saved_step() const;

  // How far and how fast it trains, without what saves have cost: the newest train step of all learners, and the speed
  // of the first one that knows its own, since all go at one pace if train steps end in a collective.
  PaceHint pace(int64_t now_unix_s) const;

  // ---- what learners are told of the attempt
  const plan::RunFacts& facts() const { return facts_; }
  // Its number in the run (1-based), the restarts before it, and what its processes are found by (env::kRunId).
  void is_called(int attempt, int restarts, std::string run_id);
  // Learners meet where the agent of learner 0 has said, and each peer where its own agent has, if the plan has peers.
  // stores: facts() with what dlrun hosts. To be called once all agents have said hello.
  void meet(plan::RunFacts stores, bool peers);

 private:
  Learner& at(int rank) { return learners_[static_cast<size_t>(rank)]; }
  bool any_decides() const;  // of the learners that decide, one still runs
  template <typename Holds>
  bool all(size_t* below, Holds holds) {
    while (*below < learners_.size() && holds(learners_[*below])) ++*below;
    return *below == learners_.size();
  }

  std::vector<Learner> learners_;
  plan::RunFacts facts_;
  size_t deciding_ = 0, nodes_ = 0, first_place_ = 0;
  int64_t started_ms_ = 0, started_unix_ms_ = 0;
  std::vector<Failure> failures_;
  bool over_told_ = false;
  // agents_have_pmi_: one has reported that its task has a PMI server (Hello::pmi), so that it can begin only once.
  bool agents_have_pmi_ = false, agent_lost_ = false, agent_silent_ = false, dismissed_ = false;
  int64_t serving_until_ms_ = 0;  // 0: the others still run
  bool serving_over_ = false;

  size_t hello_below_ = 0, started_below_ = 0, ended_below_ = 0;
  int64_t step_ms_ = 0;           // smoothed time of a train step
  int64_t running_since_ms_ = 0;  // 0: not all learners have started yet
  int64_t last_save_ms_ = 0;      // of the last save, or attempt to save
};

}  // namespace dl::supervise
