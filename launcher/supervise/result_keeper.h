// SPDX-License-Identifier: Apache-2.0
// What becomes of the results of a run at an end: whether they are stored now (result_store.h), until when, what is
// done with those that were not, and what is said of them.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "launcher/record/job_dir.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/node_pool.h"
#include "launcher/supervise/result_store.h"
#include "launcher/supervise/run_state.h"
#include "launcher/supervise/slurm_job.h"
#include "launcher/supervise/stop_controller.h"
#include "launcher/supervise/store_job.h"
#include "launcher/supervise/voice.h"

namespace dl::supervise {

class ResultKeeper {
 public:
  // What it looks at and works with. All are borrowed.
  struct Owners {
    const NodePool* nodes = nullptr;
    const RunState* state = nullptr;
    const StopController* stops = nullptr;
    SlurmJob* slurm = nullptr;
    Journal* journal = nullptr;
    const Voice* voice = nullptr;
  };
  // run: which dlrun of the job this is.
  ResultKeeper(uv_loop_t* loop, const Owners& with, record::JobDir dir, int run)
      : with_(with), dir_(std::move(dir)), store_(loop, run) {}

  // Stores what the run has, if it is to be stored and time is left; else it is handed to a job without GPUs, or kept
  // for the next attempt (store_job.h). Then calls `then`, perhaps before this has returned.
  void store(AfterEnd after, const std::function<void()>& then);
  // A signal has come. The end of the run is decided when results are stored, but a store that is under way has to keep
  // the deadline of whoever wants the nodes now.
  void hurry(int signal);
  // How far a store is, in one sentence; empty if none is under way. Reads a file.
  std::string text() const { return store_.text(); }
  bool under_way() const { return store_.under_way(); }
  bool idle() const { return store_.idle(); }

  // ---- of the newest end
  bool tried() const { return stored_.tried; }  // a store was begun
  // What is added to the reason of an end whose results are not stored; code: the class of such an end.
  std::string not_stored(const char* code) const;
  // They lie in the job directory alone, and no job stores them: somebody has to fetch them from there.
  bool left_behind() const { return stored_.job.empty() && !not_stored("").empty(); }

 private:
  void hand_over(AfterEnd after, const std::function<void()>& then);
  void end(const std::function<void()>& then);
  const plan::LaunchPlan& plan() const { return with_.nodes->plan(); }

  Owners with_;
  record::JobDir dir_;
  ResultStore store_;
  StoreOutcome stored_;
};

}  // namespace dl::supervise
