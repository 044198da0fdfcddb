// SPDX-License-Identifier: Apache-2.0
// The PMIx servers of an attempt (launcher/pmix): one on each node, started by the agent of its first learner. Learners
// start when all of them are ready; they hear through them of a peer that is lost, before they are ended for it. What
// the rest of dlrun is to do is given back as news. No socket and no clock here: times are of the awake clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "launcher/plan/launch_plan.h"
#include "launcher/pmix/exchange.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/connections.h"
#include "launcher/supervise/first_cause.h"
#include "launcher/supervise/run_state.h"

namespace dl::supervise {

class PmixServers {
 public:
  struct News {
    std::vector<std::string> lines;               // to be said to people
    std::string not_started;                      // the attempt cannot begin, for this; empty: nothing hinders it
    std::optional<std::pair<int, Failure>> lost;  // this learner has failed
    std::optional<int> end_learners_ms;           // they are to be ended, with this grace
  };
  struct Now {
    int64_t ms = 0;
    Phase phase = Phase::kIdle;
    const std::vector<Learner>& learners;
  };

  // connections: not owned.
  explicit PmixServers(Connections* connections) : connections_(connections) {}

  // Of a new attempt, in place of those of the one before. space: PMIx's name for it, of this attempt alone since PMIx
  // knows each process once, and with random digits, since whoever knows it may call itself one of its processes.
  void open(const plan::LaunchPlan& plan, std::string space);
  void close();

  // The server that the agent of learner `rank` has started; false: it is not waited for.
  bool greet(ConnectionId id, int rank, bool sessions);
  bool knows(ConnectionId id) const { return node_of_.count(id) > 0; }
  // What a server that it knows says; and what became of its connection.
  News heard(ConnectionId id, const std::string& body, const Now& now);
  News broken(ConnectionId id, const std::string& why, const Now& now);
  void resumed(ConnectionId id);

  // All of them; also where there are none.
  bool ready() const;
  // all_agents: they have come, so that the servers are waited for.
  News tick(const Now& now, bool all_agents);
  void add_environment(int rank, Start* start) const;

  // A learner has ended, with this status. True if others are told of it: they are asked to end a little later
  // (end_after_notice()). Who of them wants to hear it libpmix does not say; those that have never come to PMIx do not.
  bool tell_of_end(int rank, bool failed, int exit);
  void end_after_notice(int grace_ms, int64_t now_ms);

  bool has_aborted(int rank) const { return aborts_.count(rank) > 0; }  // by MPI_Abort
  // Adds to a learner's failure what PMIx knows of it. Gives a sentence for people, or nothing.
  std::string explain(int rank, Failure* failure) const;

 private:
  struct Server {
    ConnectionId connection = 0;  // 0: none (yet, or any more)
    bool ready = false;
    std::string broken;                                        // why its connection is waited for; empty: it is there
    std::vector<std::map<std::string, std::string>> learners;  // environment of each of the node's
  };
  struct Abort {
    int status = 0;
    int64_t at_ms = 0;
  };
  struct Place {
    int node = 0, local_rank = 0;
  };

  Server& server(int node) { return servers_[static_cast<size_t>(node)]; }
  void answer(const pmix::Exchange::Answers& answers);
  News lost(int node, const std::string& why, const Now& now);

  Connections* connections_;
  bool said_ = false;  // which PMIx it is; once a run

  // Of the attempt; no servers: its plan has none
  pmix::Job job_;
  std::vector<Server> servers_;                    // by node
  std::vector<Place> places_;                      // by rank
  std::unordered_map<ConnectionId, int> node_of_;  // of the servers' connections
  pmix::Exchange exchange_;
  std::string version_;
  std::vector<bool> came_;  // by rank: it has connected to its server
  std::map<int, Abort> aborts_;
  int64_t waiting_since_ms_ = 0, end_at_ms_ = 0;
  int end_grace_ms_ = 0;
};

}  // namespace dl::supervise
