// SPDX-License-Identifier: Apache-2.0
// The servers of an elastic pool (--servers MIN:MAX): they are started and end while the learners train. What the end
// of one means is decided by ServerPlaces; who may leave, and which state moves, by the pool's directory. Here that is
// done, and the run is told where it cannot go on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launcher/supervise/agent_fleet.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/data_fetch.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/node_pool.h"
#include "launcher/supervise/run_state.h"
#include "launcher/supervise/server_pool.h"
#include "launcher/supervise/voice.h"

namespace dl::supervise {

class PoolKeeper {
 public:
  // What it works with. All are borrowed.
  struct Owners {
    Attempt* attempt = nullptr;
    const RunState* state = nullptr;
    const NodePool* nodes = nullptr;
    AgentFleet* agents = nullptr;
    const DataFetch* data = nullptr;
    Journal* journal = nullptr;
    const Voice* voice = nullptr;
  };
  // What it has done by the rest of dlrun.
  struct Calls {
    std::function<void(int rank)> start;                                 // its agent starts a server
    std::function<void(int rank, Failure)> fail;                         // it has failed, and the run with it
    std::function<void()> look_whether_over;                             // after fail(): perhaps the attempt is over
    std::function<void(const std::vector<std::string>& nodes)> release;  // these lost nodes are given back to Slurm
  };
  PoolKeeper(std::unique_ptr<ServerPool> pool, const Owners& with, Calls calls)
      : pool_(std::move(pool)), with_(with), calls_(std::move(calls)) {}

  Status open(const std::string& endpoint, plan::RunFacts* facts) {  // as ServerPool::open()
    return pool_->open(plan(), endpoint, facts);
  }
  bool is_open() const { return pool_->is_open(); }
  protocol::PoolStatus status() const { return pool_->status(); }

  // To be called often.
  void look();
  // Starts those that are missing; also to be called when the learners are started.
  void start_servers();
  // An agent says that what it has started has ended. True: it was a server of the pool, and all that follows is done.
  bool takes_end(int rank, const protocol::Exited& exited);
  // The agent of a place counts as lost (Attempt::lose_agent()). True: the run goes on without it.
  bool goes_on_without(int rank, const Failure& why);
  // Its servers end by themselves, and no more are started. Those in reserve end.
  void close();
  // Agents of places that were kept for another attempt. Without a word they would take dlrun for dead, and end with a
  // status of which srun tells the user.
  void dismiss_reserve();

 private:
  void server_failed(int rank, Failure failure, ServerPlaces::End end);
  void let_go_unless_needed(int rank);
  bool serves() const { return pool_->is_open() && with_.state->running(); }
  const plan::LaunchPlan& plan() const { return with_.nodes->plan(); }

  std::unique_ptr<ServerPool> pool_;
  Owners with_;
  Calls calls_;
};

}  // namespace dl::supervise
