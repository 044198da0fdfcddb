// SPDX-License-Identifier: Apache-2.0
// dlrun at work. One event loop: agents report, the pure decisions beside this file decide (first_cause,
// stop_agreement, grace_budget, notice, restart_policy), and this acts. supervisor.cpp holds the loop, its clock and
// its answers, supervisor_attempt.cpp runs an attempt, supervisor_stop.cpp stops one, supervisor_end.cpp decides what
// comes after it, supervisor_ways.cpp judges agents that are not heard, supervisor_nodes.cpp goes
// on where nodes were lost, supervisor_store.cpp hosts rendezvous, supervisor_pmix.cpp speaks with the
// PMIx servers.
//
//   start_attempt -> agents say hello -> Start to all -> learners run -> all ended -> end_attempt -> restart | finish
#pragma once

#include <unistd.h>
#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/common/clock.h"
#include "launcher/common/more_descriptors.h"
#include "launcher/common/result.h"
#include "launcher/common/site_config.h"
#include "launcher/guard/guard.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/pmix/exchange.h"
#include "launcher/record/job_dir.h"
#include "launcher/rendezvous/http_store_server.h"
#include "launcher/rendezvous/tcp_store_server.h"
#include "launcher/slurm_cli/slurm_cli.h"
#include "launcher/supervise/agent_launcher.h"
#include "launcher/supervise/control_server.h"
#include "launcher/supervise/first_cause.h"
#include "launcher/supervise/grace_budget.h"
#include "launcher/supervise/hang.h"
#include "launcher/supervise/idle_gpus.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/lease.h"
#include "launcher/supervise/notice.h"
#include "launcher/supervise/peer_questions.h"
#include "launcher/supervise/recheck.h"
#include "launcher/supervise/restart_policy.h"
#include "launcher/supervise/stop_agreement.h"
#include "launcher/supervise/straggler.h"
#include "launcher/supervise/worker.h"

namespace dl::supervise {

// A plan, and what is written of it to plan.json.
struct NewPlan {
  plan::LaunchPlan plan;
  std::string json;
};

struct RunOptions {
  int64_t hang_ms = 0;                    // no progress for so long is a failure; 0: never
  bool quiet = false;                     // learners' output to their logs alone, and no lines of our own but errors
  std::string agent_path;                 // for the sweep after a lost agent
  std::string plan_json;                  // written to plan.json
  std::optional<slurm_cli::JobInfo> job;  // what Slurm said of the job a moment ago; none: it is asked
  // A plan for what is left when these nodes are lost, for good; fails where that does not hold the learners. Called on
  // the loop's thread. Empty: there is none.
  std::function<Result<NewPlan>(const std::vector<std::string>& lost, const plan::LaunchPlan& now)> without;
  guard::Predecessor predecessor;  // the dlrun whose place this one takes, if any
  guard::Link* guard = nullptr;    // not owned; nullptr: nobody would take this one's place
  // Checks the nodes of the next attempt after a failure that one of them may be to blame for; suspects: those on which
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
  struct Learner {
    ConnectionId connection = 0;  // 0: none (yet, or any more)
    bool said_hello = false, started = false, ended = false, ever_attached = false;
    std::string host, address;
    int port = 0, coordinator_port = 0, ras_port = 0, pid = 0;
    std::vector<int> ports;
    record::JobState state = record::JobState::kDeploy;
    uint32_t page_state = 0;
    int64_t step = -1, saved_step = -1;
    uint64_t save_ms = 0, local_ms = 0, cost_ms = 0;  // as on the progress page
    int64_t step_seen_ms = 0;                         // monotonic, when `step` was reported
    int exit = 0;
    int64_t heard_ms = 0;  // monotonic: the last word of its agent, pings included
    bool hung = false;     // named as the cause of a stand-still: how it ends says nothing
    StepTimes times;
  };
  struct Stop {
    StopCause cause = StopCause::kPause;
    std::string who;                     // text for people
    int signal = 0;                      // what was sent to us, 0 = none
    std::optional<int64_t> deadline_ms;  // Unix time
    bool save = true;
    bool local = false;  // at the node-local level alone
    std::string not_saved_reason;
    bool killing = false;
  };

  struct PmixServer {
    ConnectionId connection = 0;  // 0: none (yet, or any more)
    bool ready = false;
    std::string broken;                                        // why its connection is waited for; empty: it is there
    std::vector<std::map<std::string, std::string>> learners;  // environment of each of the node's
  };
  struct PmixAbort {
    int status = 0;
    int64_t at_ms = 0;  // monotonic
  };
  struct PmixJob {  // of an attempt; no servers: the plan has none
    pmix::Job job;
    std::vector<PmixServer> servers;                // by node
    std::unordered_map<ConnectionId, int> node_of;  // of the servers' connections
    pmix::Exchange exchange;
    std::string version;
    std::vector<bool> came;  // by rank: it has connected to its server
    std::map<int, PmixAbort> aborts;
    int64_t waiting_since_ms = 0, kill_at_ms = 0;
    int kill_grace_ms = 0;
  };

  // supervisor.cpp
  Status set_up();
  Status open_control();
  void watch_signals();
  void reap_launchers();
  void tick();
  void answer_ctl(ConnectionId id, const Message& message);
  JobStatus status() const;
  void say(const std::string& line) const;

  // supervisor_death.cpp
  void take_over();
  void answer_death();

  // supervisor_attempt.cpp
  void start_attempt(const std::string& why, const std::string& code = {});
  void name_hosts();
  Status start_agents();
  bool wake_agents();
  void start_cold();
  void agents_not_started(const std::string& why);
  void on_hello(ConnectionId id, const Hello& hello);
  void on_message(ConnectionId id, const Message& message);
  void on_started(int rank, const Started& started);
  void on_progress(int rank, const Progress& progress);
  void on_exited(int rank, const Exited& exited);
  void start_learners();
  void learner_failed(int rank, Failure failure);
  void give_up_learners(const Failure& failure, bool only_silent);
  void kill_learners(int grace_ms);
  void check_attempt_over();
  void tick_serving(int64_t now_ms);
  // Also where no restart can follow: the agent of a node's first learner holds its PMIx server.
  bool may_keep_agents() const {
    return !agents_have_pmi_ && (restarts_done_ < plan_.restarts || !plan_.pmix_server.empty());
  }
  template <typename Holds>
  bool all_learners(size_t* below, Holds holds) {
    while (*below < learners_.size() && holds(learners_[*below])) ++*below;
    return *below == learners_.size();
  }

  // supervisor_store.cpp
  void watch_peers();
  rendezvous::PeerCheck peer_check();
  void open_store();
  Status open_http_store();
  void close_stores();

  // supervisor_pmix.cpp
  void open_pmix();
  void close_pmix();
  void on_pmix_hello(ConnectionId id, const Hello& hello);
  void on_pmix(int node, const std::string& body);
  bool pmix_ready() const;
  void add_pmix_environment(int rank, Start* start) const;
  void answer_pmix(const pmix::Exchange::Answers& answers);
  void pmix_lost(int node, const std::string& why);
  bool tell_of_end(int rank, bool failed);
  void kill_after_notice(int grace_ms);
  void tick_pmix(int64_t now_ms);
  void add_abort(int rank, Failure* failure);

  // supervisor_stop.cpp
  void on_signal(int signal);
  void look_up_notice(int signal);
  NoticeInput notice_input(int signal) const;
  void act_on_notice(const NoticeReading& reading, int signal);
  bool request_stop(StopCause cause, std::optional<int64_t> deadline_ms, int signal, const std::string& who);
  void begin_agreement(uint32_t kind);
  void on_step_report(int rank, const StepReport& report);
  void settle_agreement();
  void stop_without_agreement();
  void tick_stop(int64_t now_ms);
  void tick_time_limit(int64_t now_ms);
  void tick_periodic_save();
  void look_for_request_file();
  SaveTimes save_times() const;
  static uint32_t exit_request(const Stop& stop);
  int64_t chosen_interval_ms() const;
  int64_t newest_saved_step() const;

  // supervisor_hang.cpp
  void on_stalled(int rank, const Stalled& stalled);
  void on_standing_still(int rank, const StandingStill& still);
  void settle_hang();

  // supervisor_watch.cpp
  void look_for_stragglers();
  void look_for_idle_gpus();
  int64_t gpu_look_ms() const;
  std::string note_of(size_t rank) const;
  void agents_missing();
  void look_for_silent_agents(int64_t now_ms);
  void agents_silent(const std::vector<int>& ranks);

  // supervisor_ways.cpp
  void on_broken(ConnectionId id, const std::string& why);
  void on_pmix_broken(int node, const std::string& why);
  void look_at_pmix_ways();
  void on_resumed(ConnectionId id);
  void look_at_way(int rank);
  void look_at_ways(int64_t now_ms);
  void probe_quickly(int rank, ConnectionId id);
  void lose_agent(int rank, Verdict verdict, const std::string& why);

  // supervisor_nodes.cpp
  void node_lost(int rank, int64_t fence_until_ms);
  bool plan_without_lost();
  void go_on_without_lost(const std::string& reason);
  bool check_nodes_first(const EndDecision& decision, const FailureClass& its);
  void nodes_checked(EndDecision decision, const CheckedNodes& found);
  void release_lost(const std::vector<std::string>& names);
  void forget_old_step();

  // supervisor_end.cpp
  void end_attempt();
  void decide_and_sweep();
  AttemptEnd attempt_end() const;
  void carry_out(const EndDecision& decision);
  std::string failure_text(const std::string& reason, const std::optional<Failure>& cause,
                           const FailureClass& its) const;
  void finish(int exit_status);
  void put_back(bool hold);
  void keep_start_time();
  void when_launchers_are_gone(int64_t limit_ms, std::function<void()> then);
  void poll(uint64_t interval_ms, std::function<bool()> step);
  void sweep(const std::string& run_id, std::function<void()> done);
  void settle_and_finish(int exit_status);
  bool can_requeue() const;

  plan::LaunchPlan plan_;
  SiteConfig site_;
  RunOptions options_;
  record::JobDir dir_;
  uv_loop_t loop_{};
  uv_timer_t timer_{};
  std::vector<std::unique_ptr<uv_signal_t>> signals_;
  bool loop_open_ = false;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<Worker> worker_;   // Slurm's commands
  std::unique_ptr<Worker> disk_;     // the lease
  std::unique_ptr<Worker> checker_;  // nodes before a restart
  std::unique_ptr<Journal> journal_;
  AgentLauncher launcher_;
  std::optional<MoreDescriptors> descriptors_;  // not while agents are started
  Lease lease_;

  // The job
  std::string secret_, endpoint_;
  std::optional<slurm_cli::JobInfo> job_;
  int attempt_ = 0, restarts_done_ = 0, moved_ = 0;  // moved: attempts begun anew on the rest of the allocation
  std::map<std::string, int> class_restarts_;        // by class of failure
  std::string excluded_;                             // node that the job shall not get again, or empty
  std::optional<int64_t> end_time_ms_;               // Unix time of the time limit
  int64_t run_started_ms_ = 0;                       // Unix time
  int exit_status_ = 0;
  bool finished_ = false, control_written_ = false, putting_back_ = false, job_put_back_ = false, killed_ = false;

  // A stand-still that is being looked into
  bool hang_open_ = false;
  int64_t hang_deadline_ms_ = 0;
  std::vector<StandStill> standing_still_;
  std::map<int, std::vector<std::string>> still_lines_;

  // The attempt
  enum class Phase { kIdle, kStarting, kRunning, kOver };
  Phase phase_ = Phase::kIdle;
  plan::RunFacts facts_;
  std::unique_ptr<PeerQuestions> peers_;
  std::unique_ptr<rendezvous::TcpStoreServer> store_;        // nullptr: rank 0 hosts it
  std::unique_ptr<rendezvous::HttpStoreServer> http_store_;  // nullptr: the plan asks for none
  std::vector<Learner> learners_;
  std::unordered_map<ConnectionId, int> rank_of_;  // of the agents' connections
  struct Broken {
    int64_t since_ms = 0;
    std::string why;
  };
  std::map<int, Broken> broken_;  // by rank: connections that wait to be taken up again
  // All learners below have said hello, are started or ended, have ended. For 10,000 learners it is not looked through
  // all of them at each message.
  size_t hello_below_ = 0, started_below_ = 0, ended_below_ = 0;
  bool woken_ = false;            // the agents of the attempt before were asked to begin anew
  bool agents_have_pmi_ = false;  // Hello::pmi of any
  PmixJob pmix_;
  bool pmix_said_ = false;  // which PMIx it is
  SlowLearners slow_;
  IdleGpus idle_;
  std::vector<Failure> failures_;
  bool agent_lost_ = false, agent_silent_ = false, killing_ = false;
  std::set<std::string> lost_nodes_, bad_nodes_;  // bad: a check has said so
  bool checking_ = false, checked_ = false;       // the nodes of the attempt to come
  std::function<void()> stop_later_;              // asked for while they were checked
  std::optional<NewPlan> without_lost_;           // while it is decided what comes after an attempt
  int64_t fence_until_ms_ = 0;  // monotonic: no learner starts before, others may still run on a lost node
  int64_t attempt_started_ms_ = 0, kill_deadline_ms_ = 0, running_since_ms_ = 0, launcher_gone_ms_ = 0;
  int64_t serving_until_ms_ = 0;  // monotonic: when those that serve are ended; 0: others still run
  bool serving_over_ = false;
  std::optional<int> launcher_status_;
  std::optional<Stop> stop_;
  StopAgreement agreement_;
  int64_t next_request_ = 0;
  bool stop_waits_ = false;   // a stop waits until the open save is done
  int64_t step_ms_ = 0;       // smoothed time of a train step
  int64_t last_save_ms_ = 0;  // monotonic, of the last save seen
  int64_t last_ping_ms_ = 0, last_second_ms_ = 0, last_renew_ms_ = 0, last_notice_ms_ = 0;
  int64_t last_suspicion_ms_ = 0, last_probe_ms_ = 0;
  int64_t last_listened_ms_ = 0;  // look_for_silent_agents()
  bool silence_open_ = false;     // Slurm is asked about it
  bool notice_open_ = false, limit_check_open_ = false, renew_open_ = false;
  int interrupts_ = 0;
  int64_t last_interrupt_ms_ = 0;
};

}  // namespace dl::supervise
