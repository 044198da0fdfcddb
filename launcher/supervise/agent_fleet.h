// SPDX-License-Identifier: Apache-2.0
// The agents of a run: what starts them, their connections, and what becomes of those that are not heard (two_ways.h).
// Agents of an attempt that has ended may wait for the next one. No clock and no socket here: times are of the awake
// clock, connections by their interface.
#pragma once

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

namespace dl::supervise {

// An agent that is not waited for any more.
struct AgentLoss {
  int rank = 0;
  Verdict verdict = Verdict::kAgentKilled;
  std::string why;
  // It may live, cut off from us by now, where no sweep reaches it: nothing starts in its place before. None: it is
  // known to have ended, or its learner was to end anyway.
  std::optional<int64_t> fence_until_ms;

  bool takes_node() const { return verdict != Verdict::kAgentKilled; }
};
// The failure of its learner; host: where it ran. Pure.
Failure failure_of(const AgentLoss& loss, const std::string& host);

class AgentFleet {
 public:
  using Learners = std::vector<Learner>;  // by rank: nothing is asked of the agent of one that has ended

  // Neither is owned; the plan may change between attempts.
  AgentFleet(Connections* connections, const plan::LaunchPlan& plan) : connections_(connections), launcher_(plan) {}

  // ---- of an attempt
  // A new one, of so many learners. True: all agents of the one before wait, and are told to begin anew, which takes
  // milliseconds where a new step takes a good part of a second. False: none does, and start() is to be called.
  // may_stay: false where one of them is lost, or holds what cannot be used again.
  bool begin(size_t learners, bool may_stay);
  // Of those that were told to begin anew: all have come; or they have not within some seconds, or are gone.
  void all_came() { woken_ = false; }
  bool waits_in_vain(int64_t now_ms, int64_t since_ms) const;

  // ---- what starts them (agent_launcher.h)
  Status start(const std::string& endpoint, const std::string& secret);
  void reap(int64_t now_ms);
  bool any_running() const { return launcher_.any_running(); }
  // It ended a while ago: those it had started have ended, or were never started.
  bool launcher_is_gone(int64_t now_ms) const;
  int launcher_status() const { return launcher_status_; }  // as of waitpid(), of the last one that ended
  void kill_all(int signal) { launcher_.kill_all(signal); }
  void kill_older(int signal) { launcher_.kill_older(signal); }

  // ---- connections
  void greet(ConnectionId id, int rank, bool sessions, int64_t now_ms);
  std::optional<int> rank_of(ConnectionId id) const;
  bool has(int rank) const { return agent(rank).connection != 0; }
  void heard(int rank, int64_t now_ms) { agent(rank).heard_ms = now_ms; }
  void tell(int rank, const Message& message) { connections_->send(agent(rank).connection, message); }
  void tell_line(int rank, const std::string& line) { connections_->send_line(agent(rank).connection, line); }
  void tell_all(const std::string& line, const Learners& learners);
  // It ends when it hears of it. Its session is not taken up again, and no datagram answered.
  void let_go(int rank);
  // To be called often: keeps connections alive, and asks those that do not acknowledge it.
  void tick(int64_t now_ms, const Learners& learners);

  // ---- connections that are lost
  // What the loss of this one means now; none: it is waited for, or no matter. ending: its learner is to end anyway.
  std::optional<AgentLoss> broken(ConnectionId id, const std::string& why, bool ending, int64_t now_ms,
                                  const Learners& learners);
  // The same of one that is waited for, with what is known by now.
  std::optional<AgentLoss> judge(int rank, bool ending, int64_t now_ms);
  // All that are waited for; asks them again.
  std::vector<int> look_at_broken(int64_t now_ms);
  // Asks this one at once; false: it is not waited for any more. An agent's kernel may not be done with its end yet.
  bool ask_again(ConnectionId id);
  struct Resumed {
    int rank = 0;
    std::string text;  // for people
  };
  std::optional<Resumed> resumed(ConnectionId id, int64_t now_ms);

  // ---- agents that say nothing though their node acknowledges: stopped, frozen, starved
  std::vector<int> silent(int64_t now_ms, int64_t limit_ms, const Learners& learners) const;
  // Slurm is asked whether the job is suspended: until the answer nobody counts as silent.
  void silence_is_asked_about() { silence_open_ = true; }
  void silence_is_known(bool suspended, int64_t now_ms);

 private:
  struct Agent {
    ConnectionId connection = 0;  // 0: none (yet, or any more)
    int64_t heard_ms = 0;         // its last word, pings included
  };
  struct Broken {
    int64_t since_ms = 0;
    std::string why;
  };

  Agent& agent(int rank) { return agents_[static_cast<size_t>(rank)]; }
  const Agent& agent(int rank) const { return agents_[static_cast<size_t>(rank)]; }
  AgentLoss lose(int rank, Verdict verdict, const std::string& why, bool ending, int64_t now_ms);

  Connections* connections_;
  AgentLauncher launcher_;
  std::optional<MoreDescriptors> descriptors_;  // not while agents are started
  int64_t launcher_gone_ms_ = 0;
  int launcher_status_ = 0;
  bool woken_ = false;

  std::vector<Agent> agents_;  // by rank
  std::unordered_map<ConnectionId, int> rank_of_;
  std::map<int, Broken> broken_;  // by rank: wait to be taken up again
  int64_t last_ping_ms_ = 0, last_suspicion_ms_ = 0, last_probe_ms_ = 0;
  bool silence_open_ = false;
};

}  // namespace dl::supervise
