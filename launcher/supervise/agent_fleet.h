// SPDX-License-Identifier: Apache-2.0
// The agents of a run: how they are started, their connections, and which of them count as lost (two_ways.h). The
// agents of an attempt that has ended may stay and serve the next one. There is no clock and no socket in this class:
// callers pass times of the awake clock, and an interface stands for the connections. What the rest of dlrun has to do
// is returned as News, or as the loss of an agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/more_descriptors.h"
#include "common/base/result.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/supervise/agent_launcher.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/connections.h"
#include "launcher/supervise/run_state.h"

namespace dl::supervise {

// An agent that counts as lost.
struct AgentLoss {
  int rank = 0;
  protocol::Verdict verdict = protocol::Verdict::kAgentKilled;
  std::string why;
  // Its node may be cut off, so that the agent still runs where no sweep reaches it. No learner starts in its place
  // before this time (awake clock). None: the agent is known to have ended, or its learner was to end anyway.
  std::optional<int64_t> fence_until_ms;
  bool asked = false;  // its learner was to end anyway

  bool takes_node() const { return verdict != protocol::Verdict::kAgentKilled; }  // its node counts as lost, too
};
// What this loss means for the agent's learner, which ran on `host`. Pure.
Failure failure_of(const AgentLoss& loss, const std::string& host);
// What it means for a learner that no agent can be reached any more, for the reason `text`. all_came: all agents had
// come before, so that learners may have run. Pure.
Failure failure_of_all(bool all_came, std::string text);

class AgentFleet {
 public:
  using Learners = std::vector<Learner>;  // index = rank; agents whose learner has ended get no messages

  // Borrows both. The plan may change between attempts. patience: how long agents may take to connect.
  AgentFleet(Connections* connections, const plan::LaunchPlan& plan, std::chrono::seconds patience)
      : connections_(connections), plan_(plan), launcher_(plan), patience_(patience) {}

  // ---- of an attempt
  // Begins an attempt. True: all agents of the last attempt stayed, and are told to begin anew; that takes
  // milliseconds, while a new job step takes a good part of a second. False: none stayed, and the caller has to call
  // start(). may_stay: false if an agent of the last attempt is lost, or cannot serve another learner.
  bool begin(size_t learners, bool may_stay, int64_t now_ms);
  // Begins the same attempt anew, with other agents for all learners. Then the caller has to call start().
  void begin_again(int64_t now_ms);

  struct News {
    std::string line;                // to be printed for the user
    bool start_again = false;        // other agents are to be started for all learners: begin_again(), then start()
    std::optional<Failure> give_up;  // all learners that have not ended are to be given up (Attempt::give_up())
  };
  // To be called often while an attempt is under way: whether agents do not come, or what starts them has ended. Agents
  // that were told to begin anew have 5 s, others `patience`. Where Slurm has refused to start the agents, or srun
  // could not start all of them (refused_step.h), srun is started again a while later.
  News look(const RunState& state, int64_t now_ms);

  // All agents of the attempt have come. They are not awaited any more, however long their learners are not started.
  void all_came() { all_came_ = true; }

  // ---- the processes that start agents (agent_launcher.h)
  Status start(const std::string& endpoint, const std::string& secret);  // as AgentLauncher::start()
  // As AgentLauncher::start_early(): agents for the next attempt, by another plan, beside those of this one. Their
  // connections are the caller's until adopt().
  Status start_early(const plan::LaunchPlan& plan, const std::string& endpoint, const std::string& secret);
  bool early_run() const { return launcher_.early_run(); }
  void drop_early() { launcher_.drop_early(); }
  // In place of start(): they serve the attempt that has just begun.
  void adopt();
  int start_number() const { return launcher_.number(); }  // protocol::Hello::start of the agents of this attempt
  int early_number() const { return launcher_.early_number(); }
  void reap(int64_t now_ms);  // to be called often, and after SIGCHLD
  bool any_running() const { return launcher_.any_running(); }
  void kill_all(int signal) { launcher_.kill_all(signal); }
  void kill_older(int signal) { launcher_.kill_older(signal); }

  // ---- connections
  // An agent has sent Hello: once in each attempt, and once more after begin_anew().
  void greet(ConnectionId id, int rank, bool sessions, int64_t now_ms);
  std::optional<int> rank_of(ConnectionId id) const;
  bool has(int rank) const { return agent(rank).connection != 0; }
  void heard(int rank, int64_t now_ms) { agent(rank).heard_ms = now_ms; }
  void tell(int rank, const protocol::ControlMessage& message) { connections_->send(agent(rank).connection, message); }
  void tell_all(const std::string& line, const Learners& learners);
  // Tells one agent of each host, also one whose learner has ended. Returns how many.
  int tell_each_host(const std::string& line, const Learners& learners);
  // Tells an agent whose learner has ended to begin anew within this attempt.
  void begin_anew(int rank);
  // Closes the connection and the session of an agent, which then ends. Its datagrams are not answered any more.
  void let_go(int rank);
  // Call this often: it keeps connections alive, and probes agents that do not acknowledge.
  void tick(int64_t now_ms, const Learners& learners);

  // ---- broken connections
  // A connection broke. Returns a loss if the agent counts as lost; nothing if it may still take the connection up
  // again, if its end does not matter, or if the loss is kept (losses_kept()). ending: its learner is to end anyway, so
  // it need not be waited for.
  std::optional<AgentLoss> broken(ConnectionId id, const std::string& why, bool ending, int64_t now_ms,
                                  const Learners& learners);
  // The same question again, about an agent whose connection is still broken.
  std::optional<AgentLoss> judge(int rank, bool ending, int64_t now_ms);
  // Agents that were killed before all had come: srun may be ending a step that it could not start on each node, and
  // they would then be started again (look()). These losses are kept, and returned once it is known that it is not so:
  // since all agents have come, or since nothing is started any more (ending). To be called often.
  std::vector<AgentLoss> losses_kept(bool ending);
  // Probes all agents whose connection is broken, and returns their ranks.
  std::vector<int> look_at_broken(int64_t now_ms);
  // Probes one agent at once. False: its connection is not broken any more. Probe several times: an agent that was
  // killed may answer once more while its kernel is ending it.
  bool ask_again(ConnectionId id);
  struct Resumed {
    int rank = 0;
    std::string text;  // for people
  };
  std::optional<Resumed> resumed(ConnectionId id, int64_t now_ms);  // none: no agent has this id

  // ---- agents that are silent although their node acknowledges: stopped, frozen, starved
  // Ranks of the agents that have sent nothing for more than limit_ms.
  std::vector<int> silent(int64_t now_ms, int64_t limit_ms, const Learners& learners) const;
  // Slurm was asked whether the job is suspended. Until it answers, no agent counts as silent.
  void silence_is_asked_about() { silence_open_ = true; }
  void silence_is_known(bool suspended, int64_t now_ms);

 private:
  struct Agent {
    ConnectionId connection = 0;  // 0: not connected
    int64_t heard_ms = 0;         // when its last message came, pings included
    bool anew = false;            // begin_anew(), and it has not come yet
  };
  struct Broken {
    int64_t since_ms = 0;
    std::string why;
  };

  Agent& agent(int rank) { return agents_[static_cast<size_t>(rank)]; }
  const Agent& agent(int rank) const { return agents_[static_cast<size_t>(rank)]; }
  std::optional<AgentLoss> lose(int rank, protocol::Verdict verdict, const std::string& why, bool ending,
                                int64_t now_ms);
  bool launcher_is_gone(int64_t now_ms) const;
  bool was_refused(const RunState& state) const;
  bool tries_again(int64_t now_ms, News* news);

  Connections* connections_;
  const plan::LaunchPlan& plan_;
  AgentLauncher launcher_;
  std::chrono::seconds patience_;
  std::optional<MoreDescriptors> descriptors_;  // a raised limit of open files, except while agents are started
  int64_t launcher_gone_ms_ = 0;
  int launcher_status_ = 0;     // wait status of the process that ended last
  int refused_ = 0;             // how often srun has not started the agents of this attempt
  int64_t start_again_ms_ = 0;  // when they are started again after that; 0: they are not
  int64_t since_ms_ = 0;        // since when they are awaited
  size_t came_ = 0;             // how many have said hello since then
  bool all_came_ = false;       // all_came() was called
  bool woken_ = false;          // they were told to begin anew, and not all have come

  std::vector<Agent> agents_;  // by rank
  std::unordered_map<ConnectionId, int> rank_of_;
  std::map<int, Broken> broken_;  // by rank: the agent may still take its connection up again
  std::vector<AgentLoss> kept_;   // losses_kept()
  int64_t last_ping_ms_ = 0, last_suspicion_ms_ = 0, last_probe_ms_ = 0;
  bool silence_open_ = false;
};

}  // namespace dl::supervise
