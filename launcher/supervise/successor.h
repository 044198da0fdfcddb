// SPDX-License-Identifier: Apache-2.0
// This dlrun takes the place of one that died (launcher/guard): it goes on with what that one had recorded
// (succession.h), finds out what a signal meant that the dead one had not understood, ends what it left, and answers
// the death, which is a failure like others, with a class, a reason and an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/guard/guard.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/end_judge.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/node_pool.h"
#include "launcher/supervise/run_state.h"
#include "launcher/supervise/slurm_job.h"
#include "launcher/supervise/sweeper.h"
#include "launcher/supervise/voice.h"

namespace dl::supervise {

class Successor {
 public:
  // What it works with. All are borrowed.
  struct Owners {
    EndJudge* judge = nullptr;
    Attempt* attempt = nullptr;
    const RunState* state = nullptr;
    NodePool* nodes = nullptr;
    SlurmJob* slurm = nullptr;
    Sweeper* sweeper = nullptr;
    Journal* journal = nullptr;
    const Voice* voice = nullptr;
  };
  // What it has done by the rest of dlrun.
  struct Calls {
    std::function<void(const RunEvent&)> happens;                                // for the states of the run
    std::function<void(int64_t seconds)> kill_wait;                              // Slurm has said it
    std::function<void(const plan::LaunchPlan&)> settle;                         // as RunOptions::settle; may be empty
    std::function<void(const std::string& why, const std::string& code)> start;  // an attempt begins
    std::function<void(const std::vector<std::string>& nodes)> release;  // these lost nodes are given back to Slurm
  };
  Successor(const Owners& with, Calls calls, guard::Predecessor before)
      : with_(with), calls_(std::move(calls)), before_(std::move(before)) {}

  // False: this dlrun is the first one of its guard, and the rest is not to be called.
  bool has_predecessor() const { return !before_.death.empty(); }
  // Once, at the beginning of the run, when Slurm may have been asked about the job. Then comes Decided.
  void take_over();
  // The decision was to go on: begins the attempt.
  void start();

 private:
  void take_memory();
  void sweep_and_answer();
  void ask_for_its_stop();
  void answer();

  Owners with_;
  Calls calls_;
  guard::Predecessor before_;
  std::vector<std::string> just_lost_;  // nodes that the dead one had not given back to Slurm yet
};

}  // namespace dl::supervise
