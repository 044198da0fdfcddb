// SPDX-License-Identifier: Apache-2.0
// The job's way back into the queue at the end of a run, or its hold there: what is recorded and said of it, in which
// order it is done, and what follows where Slurm refuses. dlrun keeps setting the job's begin time until Slurm ends the
// job and dlrun with it.
#pragma once

#include <uv.h>

#include <functional>
#include <string>
#include <utility>

#include "launcher/guard/guard.h"
#include "launcher/supervise/agent_fleet.h"
#include "launcher/supervise/end_judge.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/node_pool.h"
#include "launcher/supervise/other_runs.h"
#include "launcher/supervise/result_keeper.h"
#include "launcher/supervise/run_state.h"
#include "launcher/supervise/slurm_job.h"
#include "launcher/supervise/use_keeper.h"
#include "launcher/supervise/voice.h"

namespace dl::supervise {

class QueueReturn {
 public:
  // What it works with. All are borrowed.
  struct Owners {
    const EndJudge* judge = nullptr;
    const Attempt* attempt = nullptr;
    const RunState* state = nullptr;
    const NodePool* nodes = nullptr;
    AgentFleet* agents = nullptr;
    SlurmJob* slurm = nullptr;
    OtherRuns* other_runs = nullptr;
    ResultKeeper* results = nullptr;
    UseKeeper* use = nullptr;
    Journal* journal = nullptr;
    const Voice* voice = nullptr;
    const guard::Link* guard = nullptr;  // none: the end of the batch script is not known
  };
  // What it has done by the rest of dlrun.
  struct Calls {
    std::function<void(const RunEvent&)> happens;  // what comes of it, for the states of the run
    std::function<void()> leave;                   // the run ends so: what it holds of other jobs is given back
    // Requests to stop are read once more, and then nobody can reach dlrun any more: agents and dlctl are left, the
    // lease is released.
    std::function<void()> close;
    std::function<void()> fail;  // the job was not put back: the run ends, with the status of the decision
  };
  QueueReturn(uv_loop_t* loop, const Owners& with, Calls calls) : loop_(loop), with_(with), calls_(std::move(calls)) {}

  void perform(const PutBack& back);
  void perform(const PutBackFailed& failed);
  void perform(const AlreadyBack& back);
  void perform(const HoldJob& hold);
  void perform(const KeepStartTime& keep);

 private:
  void decide();
  void put_back_unless_cancelled(const PutBack& back);
  void put_back(const PutBack& back);
  void already_back();

  uv_loop_t* loop_;
  Owners with_;
  Calls calls_;
  std::string error_;  // why the job could not be put back
};

}  // namespace dl::supervise
