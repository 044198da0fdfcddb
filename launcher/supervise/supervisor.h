// SPDX-License-Identifier: Apache-2.0
// dlrun's supervisor: one event loop. Agents report; the states of the run (run_state.h) and the pure decisions beside
// this file (learner_end, notice, restart_policy) decide; this class passes events on and performs actions, with owners
// that have their own state: README.md names them. supervisor.cpp holds the loop, its clock and the answers to dlctl,
// and makes the owners; supervisor_run.cpp passes events to the states and carries out their actions;
// supervisor_attempt.cpp runs an attempt, and has its data fetched; supervisor_stop.cpp receives requests to stop;
// supervisor_end.cpp carries out what follows an attempt; supervisor_ways.cpp handles agents that do not come, and
// agents and PMIx servers that are lost; supervisor_nodes.cpp goes on without lost nodes, or without a store.
//
//   an event -> handle() -> next() -> perform() each action -> the events that come of it
#pragma once

#include <unistd.h>
#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/awake_clock.h"
#include "common/base/result.h"
#include "common/contract/own_signal.h"
#include "common/site/site_config.h"
#include "launcher/guard/guard.h"
#include "launcher/logs/background_compression.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/record/job_dir.h"
#include "launcher/runs/siblings.h"
#include "launcher/slurm_cli/slurm_cli.h"
#include "launcher/supervise/agent_fleet.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/blocking_calls.h"
#include "launcher/supervise/companions.h"
#include "launcher/supervise/control_server.h"
#include "launcher/supervise/data_fetch.h"
#include "launcher/supervise/end_judge.h"
#include "launcher/supervise/growth.h"
#include "launcher/supervise/hang_watch.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/learner_orders.h"
#include "launcher/supervise/learner_watch.h"
#include "launcher/supervise/lease_keeper.h"
#include "launcher/supervise/log_times.h"
#include "launcher/supervise/node_pool.h"
#include "launcher/supervise/notice.h"
#include "launcher/supervise/other_runs.h"
#include "launcher/supervise/pmix_servers.h"
#include "launcher/supervise/pool_keeper.h"
#include "launcher/supervise/queue_return.h"
#include "launcher/supervise/recheck.h"
#include "launcher/supervise/rendezvous.h"
#include "launcher/supervise/restart_policy.h"
#include "launcher/supervise/result_keeper.h"
#include "launcher/supervise/run_state.h"
#include "launcher/supervise/scaling_keeper.h"
#include "launcher/supervise/silence_watch.h"
#include "launcher/supervise/slurm_job.h"
#include "launcher/supervise/stop_controller.h"
#include "launcher/supervise/successor.h"
#include "launcher/supervise/sweeper.h"
#include "launcher/supervise/time_limit_watch.h"
#include "launcher/supervise/use_keeper.h"
#include "launcher/supervise/voice.h"
#include "launcher/supervise/wanted_learners.h"

namespace dl::supervise {

struct RunOptions {
  int64_t hang_ms = 0;                    // no progress for so long is a failure; 0: never
  bool quiet = false;                     // learners' output goes to their logs alone; dlrun prints only errors
  bool debug = false;                     // learner 0's output alone is shown, byte for byte
  std::string agent_path;                 // for the sweep after a lost agent
  std::optional<slurm_cli::JobInfo> job;  // the job as Slurm showed it a moment ago; none: dlrun asks
  // The text of plan.json for an attempt. Empty: none is written.
  std::function<std::string(const plan::LaunchPlan& plan, const plan::RunFacts& attempt)> plan_json;
  std::optional<runs::Siblings> siblings;  // other dlruns of the job; none without Slurm
  std::string identity, first_dir;         // what identifies this run later; folder of the job's first run
  int run = 1;                             // its number within the job
  bool beside = false;                     // other runs of the job were active when it began
  std::optional<OwnSignal> own_signal;     // that the user asked for, before the time limit
  int passed_signal = 0;  // the same, where Slurm gives it to agents alone, though it is meant for the learners; else 0
  pid_t script = 0;       // pid of the batch script's shell, which may get it; 0: none
  NodePool::Without without;                            // called on the loop's thread
  NodePool::With with;                                  // likewise; empty: the run has no companions
  std::function<void(const plan::LaunchPlan&)> settle;  // called when such a plan is in use; may be empty
  guard::Predecessor predecessor;                       // the dlrun whose place this one takes, if any
  guard::Link* guard = nullptr;                         // not owned; nullptr: nobody would take this one's place
  // Checks the nodes of the next attempt, after a failure that one of them may have caused. suspects: those on which
  // learners failed. Blocks, on a thread of its own. Empty: the job asked for no checks.
  std::function<CheckedNodes(const plan::LaunchPlan& next, const std::vector<std::string>& suspects)> check;
};

class Supervisor {
 public:
  Supervisor(plan::LaunchPlan plan, SiteConfig site, RunOptions options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Runs the job to its end and returns dlrun's exit status. Errors before the first learner is started are printed.
  int run();

 private:
  // supervisor.cpp
  Status set_up();
  Status open_control();
  void make_keepers();
  void watch_signals();
  void tick();
  void tick_each(uint64_t ms);
  bool quiet() const;
  void set_pace();  // of tick(), after what may have changed quiet()
  void answer_ctl(ConnectionId id, const protocol::ControlMessage& message);

  // supervisor_attempt.cpp
  void start_attempt(const std::string& why, const std::string& code = {});
  void begin_watches();
  void start_cold();
  void agents_not_started(const std::string& why);
  void on_hello(ConnectionId id, const protocol::Hello& hello);
  void on_message(ConnectionId id, const protocol::ControlMessage& message);
  void on_started(int rank, const protocol::Started& started);
  void on_progress(int rank, const protocol::Progress& progress);
  void on_exited(int rank, const protocol::Exited& exited);
  void look_whether_ready();
  void fetch_data();
  void on_fetched(int rank, const protocol::Fetched& fetched);
  void perform(const StartLearners& start);
  void start_learner(int rank);
  void learner_failed(int rank, Failure failure);
  void give_up_learners(const Failure& why);
  void look_at_scaling(bool last = false);
  void look_at_pace();   // for the next comment
  void look_at_votes();  // the same
  void check_attempt_over();
  void settle_hang();

  // supervisor_run.cpp
  void handle(RunEvent event);
  void record_stop();
  void perform(const StartAttempt& start);
  void perform(const GiveUpUnheard& give_up);
  void perform(const GiveUpAll& give_up);
  void perform(const Say& what);
  void perform(const KillLearners& kill);
  // What an owner performs by itself.
  template <typename Action>
  auto perform(const Action& action) -> decltype(std::declval<LearnerOrders&>().perform(action)) {
    orders_->perform(action);
  }
  template <typename Action>
  auto perform(const Action& action) -> decltype(std::declval<Growth&>().perform(action)) {
    growth_->perform(action);
  }
  template <typename Action>
  auto perform(const Action& action) -> decltype(std::declval<QueueReturn&>().perform(action)) {
    queue_return_->perform(action);
  }

  // supervisor_stop.cpp
  void on_signal(int signal);
  void on_notice(int signal);
  void perform(const StopAnswer& answer);
  void perform(const AskSlurm& ask);
  void perform(const WatchTimeLimit& watch);
  void look_for_request_file();

  // supervisor_ways.cpp
  void on_broken(ConnectionId id, const std::string& why);
  void on_resumed(ConnectionId id);
  PmixServers::Now now_for_pmix() const;
  void follow(const PmixServers::News& news);
  void follow(const std::optional<AgentLoss>& loss);
  bool follow(const AgentFleet::News& news);
  void agent_silent(const Failure& failure);

  // supervisor_nodes.cpp
  void go_on_without_lost(const std::string& reason);
  void start_without_store();
  void perform(const CheckNodes& check);
  void nodes_checked(const CheckedNodes& found);
  void release_lost(const std::vector<std::string>& names);
  void forget_old_step();

  // supervisor_end.cpp
  void perform(const AskWhy& ask);
  void perform(const JudgeEnd& judge);
  void perform(const JudgeStopped& judge);
  void perform(const Sweep& sweep);
  void perform(const AskVersion& ask);
  void perform(const End& end);
  void end_run();
  void perform(const Finish& finish);
  void restart();
  void settle(int exit_status, std::string last_words);

  const plan::LaunchPlan& plan() const { return nodes_.plan(); }

  NodePool nodes_;
  SiteConfig site_;
  RunOptions options_;
  record::JobDir dir_;
  Voice voice_;
  uv_loop_t loop_{};
  uv_timer_t timer_{};
  std::vector<std::unique_ptr<uv_signal_t>> signals_;
  bool loop_open_ = false;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<SlurmJob> slurm_;
  std::unique_ptr<OtherRuns> other_runs_;
  std::unique_ptr<Sweeper> sweeper_;
  std::unique_ptr<Companions> companions_;
  std::unique_ptr<LeaseKeeper> lease_;
  std::unique_ptr<ScalingKeeper> scaling_;
  std::unique_ptr<BlockingCalls> checker_;  // checks nodes before a restart
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<LogTimes> log_times_;
  std::unique_ptr<UseKeeper> use_;
  logs::BackgroundCompression old_logs_;

  // The job
  std::string secret_, endpoint_;
  int attempts_ = 0;
  int exit_status_ = 0;
  bool control_written_ = false;

  // The states of the run (run_state.h), and the events that are not handled yet
  RunState state_;
  StopController stops_;
  std::unique_ptr<TimeLimitWatch> time_limit_;
  std::deque<RunEvent> events_;
  bool handling_ = false;
  std::unique_ptr<EndJudge> judge_;
  enum class NextStart { kFirst, kTakeOver, kRestart } next_start_ = NextStart::kFirst;

  Attempt attempt_;
  DataFetch data_;
  std::unique_ptr<ResultKeeper> results_;
  HangWatch hang_;
  LearnerWatch watch_;
  WantedLearners wanted_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<PoolKeeper> pool_;
  std::unique_ptr<AgentFleet> agents_;
  std::unique_ptr<LearnerOrders> orders_;
  std::unique_ptr<Growth> growth_;
  std::unique_ptr<QueueReturn> queue_return_;
  std::unique_ptr<Successor> successor_;
  std::unique_ptr<PmixServers> pmix_;
  std::unique_ptr<SilenceWatch> silence_;
  int64_t last_second_ms_ = 0;  // on the awake clock, like all times here unless a name has unix
};

}  // namespace dl::supervise
