// SPDX-License-Identifier: Apache-2.0
// Other dlruns of the same job, and the job's way back into the queue: a stop is passed on to all runs, and the job is
// put back once, when all are ready. A run that is alone in its job asks Slurm at once. All on the loop's thread.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "launcher/runs/siblings.h"
#include "launcher/supervise/run_state.h"
#include "launcher/supervise/slurm_job.h"

namespace dl::supervise {

class OtherRuns {
 public:
  // state, slurm: borrowed. siblings: none if this run is alone.
  OtherRuns(uv_loop_t* loop, const RunState* state, SlurmJob* slurm, std::optional<runs::Siblings> siblings)
      : loop_(loop), state_(*state), slurm_(slurm), siblings_(std::move(siblings)) {}

  // To be called each tick. Passes the stop of this run on to the others, if that is theirs, too (a stop that Slurm
  // tells each run of is not). Returns each stop that another run has asked for, once.
  std::optional<StopAsked> look();

  // Puts the job back into the queue (hold: held there), without the nodes `excluded` and those that other runs
  // exclude. why: for the other runs, if they do not know of it yet. Waits until all runs are ready, or until the
  // deadline of the stop; the last one asks Slurm, which kills all of them. The outcome is Slurm's, also if another run
  // has asked. `then` is not called once the run is over.
  void put_back(bool hold, std::string excluded, std::string why, std::function<void(const Status&)> then);

  // Only one of the runs sets the begin time of a job that is back in the queue: true if this is the one.
  bool keeps_begin_time() { return !siblings_ || siblings_->keeps_begin_time(); }

 private:
  bool ask_all(const std::string& cause, const std::string& who);
  void ask_slurm(bool hold, const std::string& excluded, const std::function<void(const Status&)>& then);
  bool is_over() const { return state_.phase == Phase::kOver; }

  uv_loop_t* loop_;
  const RunState& state_;
  SlurmJob* slurm_;
  std::optional<runs::Siblings> siblings_;
  std::optional<StopCause> told_;  // the cause of the stop that was passed on
};

}  // namespace dl::supervise
