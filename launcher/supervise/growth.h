// SPDX-License-Identifier: Apache-2.0
// How a run grows in place: it is given the nodes of a companion (companion_jobs.h), and goes on without them when the
// companion ends. The agents of the larger attempt are started, and come, while the learners still train; then these
// save and start again at the new size. Whether the run may grow, which companion is new, whether its agents have come
// and what its end means is decided here. There is no socket in this class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/site/site_config.h"
#include "launcher/supervise/agent_fleet.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/companion_jobs.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/node_pool.h"
#include "launcher/supervise/run_state.h"
#include "launcher/supervise/voice.h"

namespace dl::supervise {

class Growth {
 public:
  // What it works with. All are borrowed.
  struct Owners {
    Connections* connections = nullptr;
    AgentFleet* agents = nullptr;
    NodePool* nodes = nullptr;
    CompanionJobs* companions = nullptr;
    Attempt* attempt = nullptr;
    const RunState* state = nullptr;
    Journal* journal = nullptr;
    const Voice* voice = nullptr;
    const SiteConfig* site = nullptr;
  };
  // What it has done by the rest of dlrun.
  struct Calls {
    std::function<Result<std::string>(const std::string& node)> endpoint;  // where agents on this node reach dlrun
    std::function<void(size_t own)> expect;                                // ControlServer::expect()
    std::function<void(const StopAsked&)> stop;                            // the learners save and make way
    std::function<void(int rank, Failure)> fail;                           // this learner has failed
    std::function<void()> look_whether_over;                               // after fail(): perhaps the attempt is over
    std::function<void(const plan::LaunchPlan&)> settle;                   // as RunOptions::settle; may be empty
  };
  // secret: of the job, for agents. run: which dlrun of the job this is; the first one takes what dlpolicyd offers.
  Growth(const Owners& with, Calls calls, std::string secret, int run)
      : with_(with), calls_(std::move(calls)), secret_(std::move(secret)), run_(run) {}

  // dlctl asks for so many nodes; the reply goes to `asker`, at the latest when Slurm has answered.
  void asked(ConnectionId asker, int nodes);
  // dlpolicyd has seen free nodes. All runs of the job hear of them.
  void perform(const TakeOffer& take);

  // To be called often.
  void look(int64_t now_ms);
  // Companions has looked at one.
  void heard(const std::string& job, const CompanionState& state);
  // An agent has received this signal. True: it is of a companion, so the signal is not about the job itself.
  bool noticed(int rank, int signal);
  // Somebody has said hello. True: it is an agent or a server of the larger attempt, and its connection is kept here.
  bool keeps(ConnectionId id, const protocol::Hello& hello);
  // A connection is broken. True: it was one of those.
  bool broken(ConnectionId id, const std::string& why);

  // A companion's agents are being started, are awaited, or begin the attempt that begins now.
  bool under_way() const { return !next_.job.empty(); }
  // The attempt has ended. Its successor is the larger one, NodePool::larger(), only if that one's agents have come,
  // and no node was lost.
  void attempt_ends();
  // The larger plan becomes that of the next attempt. Only where there is one. Returns the endpoint of its agents.
  std::string take();
  // What is said of an attempt of another size: "4 learners on n[1-4]", and, where dlpolicyd had offered the nodes that
  // were taken, "; grew from 2 to 4 learners: nodes n[3-4] were free".
  std::string size_text() const;
  bool taken() const { return next_.taken; }  // the attempt that begins is the larger one
  // That attempt begins: its agents serve it from now on. Returns who has said hello, in this order.
  std::vector<std::pair<ConnectionId, protocol::Hello>> adopt();
  // The attempt that begins cannot: if it is the larger one, its agents are ended, and the next one starts its own.
  void not_begun();
  // The run ends, and gives all companions back.
  void run_ends();

 private:
  std::string why_not(int nodes) const;
  void runs(const std::string& job, const std::vector<plan::Node>& nodes);
  void leaves(const std::string& job, const CompanionState& state);
  void drop(const std::string& why);
  void put_off(const std::string& why);
  void end();
  const plan::LaunchPlan& plan() const { return with_.nodes->plan(); }

  // The companion whose nodes are to be used from the next attempt on (NodePool::larger()).
  struct Next {
    std::string job;  // its id; empty: there is none
    std::string endpoint;
    int64_t since_ms = 0, pinged_ms = 0;
    std::vector<std::pair<ConnectionId, protocol::Hello>> early;  // what has said hello
    int agents = 0;                                               // of those
    bool taken = false;                                           // the attempt that begins is that attempt
    int before = 0;                                               // learners of the attempt that it replaces
    bool ready(const plan::LaunchPlan& plan) const { return agents == plan.world_size(); }
  };

  Owners with_;
  Calls calls_;
  std::string secret_;
  int run_;
  Next next_;
  std::string offered_;  // the companion for which dlpolicyd offered nodes; empty: none
};

}  // namespace dl::supervise
