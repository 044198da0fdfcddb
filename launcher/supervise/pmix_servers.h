// SPDX-License-Identifier: Apache-2.0
// The PMIx servers of an attempt (launcher/pmix): one on each node that holds learners, started by the agent of its
// first one. The servers of a pool (--servers MIN:MAX) are none of the processes that they know. Learners
// start when all servers are ready. When a learner is lost, the servers tell the others before dlrun ends those, too.
// What the rest of dlrun has to do is returned as News. No socket and no clock here: times are of the awake clock.
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
    std::vector<std::string> lines;               // to be printed for the user
    std::string not_started;                      // why the attempt cannot begin; empty: it can
    std::optional<std::pair<int, Failure>> lost;  // this learner has failed
    std::optional<int> end_learners_ms;           // all learners are to be ended, with this grace period
  };
  struct Now {
    int64_t ms = 0;
    Phase phase = Phase::kIdle;
    const std::vector<Learner>& learners;
  };

  // connections: not owned.
  explicit PmixServers(Connections* connections) : connections_(connections) {}

  // Begins a new attempt and closes the connections of the last one. space: the PMIx namespace of this attempt alone,
  // since PMIx knows each process once. It has random digits, since whoever knows it may pose as one of its processes.
  void open(const plan::LaunchPlan& plan, std::string space);
  void close();

  // The server that the agent of learner `rank` started has said hello. False: no server is expected from there.
  bool greet(ConnectionId id, int rank, bool sessions);
  bool knows(ConnectionId id) const { return node_of_.count(id) > 0; }
  // A message from a server, or what became of its connection. heard() and broken(): only if knows(id). That one was
  // killed before all agents had come is reported by tick(), once they have: till then srun may be ending a step that
  // it could not start on each node, after which agents and servers are started again (AgentFleet::losses_kept()).
  News heard(ConnectionId id, const std::string& body, const Now& now);
  News broken(ConnectionId id, const std::string& why, const Now& now);
  void resumed(ConnectionId id);

  // True if all servers are ready, also if there are none.
  bool ready() const;
  // To be called often. all_agents: all agents have come; servers that are not ready 30 s later count as lost.
  News tick(const Now& now, bool all_agents);
  void add_environment(int rank, protocol::Start* start) const;  // of its server, to start->forced

  // A learner has ended with this exit code. True if it failed and other learners may hear of it by PMIx: they are then
  // to be ended a little later, by end_after_notice(). libpmix does not say which of them listen, so it is true once
  // any learner has connected to its server.
  bool tell_of_end(int rank, bool failed, int exit);
  void end_after_notice(int64_t now_ms);  // News::end_learners_ms comes 100 ms later, with the rest of kFailureGraceMs

  bool has_aborted(int rank) const { return aborts_.count(rank) > 0; }  // by MPI_Abort
  // Adds to a learner's failure what PMIx knows of it. Returns a sentence for the user, or an empty text.
  std::string explain(int rank, Failure* failure) const;

 private:
  struct Server {
    ConnectionId connection = 0;  // 0: none (yet, or any more)
    bool ready = false;
    bool killed = false;  // before all agents had come
    std::string broken;   // why its connection broke, while it may come back; else empty
    std::vector<std::map<std::string, std::string>> learners;  // environment of each of the node's
  };
  struct Abort {
    int status = 0;
    int64_t at_ms = 0;
  };
  struct Place {
    int node = 0, local_rank = 0;  // of job_
  };

  Server& server(int node) { return servers_[static_cast<size_t>(node)]; }
  void answer(const pmix::Exchange::Answers& answers);
  void let_go(int node);
  News killed(int node, const Now& now);
  News lost(int node, const std::string& why, const Now& now);

  Connections* connections_;
  bool said_ = false;  // the version of PMIx was reported to the user, once a run

  // Of the attempt. servers_ is empty if its plan has no PMIx servers.
  pmix::Job job_;
  std::vector<Server> servers_;                    // by node of job_
  std::vector<Place> places_;                      // by rank of a learner
  std::unordered_map<ConnectionId, int> node_of_;  // of the servers' connections
  pmix::Exchange exchange_;
  std::string version_;
  std::vector<bool> came_;  // by rank: it has connected to its server
  std::map<int, Abort> aborts_;
  int64_t waiting_since_ms_ = 0, end_at_ms_ = 0;
};

}  // namespace dl::supervise
