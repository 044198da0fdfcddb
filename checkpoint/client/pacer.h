// SPDX-License-Identifier: Apache-2.0
// Decides when to save, and so what dlckpt_want answers: by train steps, by time, or because dlrun asks. It only
// decides: clock, progress page and saves are the caller's. One exception: several ranks without dlrun that save by
// time agree through a group (agreed_pace.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "checkpoint/client/agreed_pace.h"
#include "checkpoint/client/step_times.h"
#include "checkpoint/group/group.h"
#include "common/contract/progress_page.h"

namespace dl::ckpt {

// What saves are predicted to take, in seconds; 0: not known.
struct SavePrediction {
  double durable_s = 0;  // until the checkpoint is in the checkpoint directory
  double local_s = 0;    // until it is at the node-local level
  double cost_s = 0;     // that training loses
};

class Pacer {
 public:
  struct Rules {
    double every_s = 0;       // 0: never
    int64_t every_steps = 0;  // 0: never
    bool every_auto = false;  // by time, how often from what saves cost
  };
  using Clock = std::function<double()>;  // seconds, never going back

  Pacer(const Rules& rules, Clock now);
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;

  bool by_time() const { return rules_.every_auto || rules_.every_s > 0; }
  // Whether the cost of saves matters (every=auto): only then set_prediction() and take_slowdown() are needed.
  bool measures() const { return rules_.every_auto; }
  // From now on all ranks agree, through this group, on when saves by time are due. For several ranks without dlrun.
  void agree_through(std::unique_ptr<Group> group);

  // Each dlckpt_want of the program calls arrive(), decide() and depart(). Time between arrive() and depart(), in which
  // ranks may wait for one another, does not count as part of a train step. The program has come to train step `step`.
  void arrive(int64_t step);
  // DLCKPT_WANT_ bits. asked: what dlrun asks for, nullopt without dlrun.
  int decide(int64_t step, std::optional<ProgressPage::Request> asked);
  // saving: a save is in flight beside the train step that follows.
  void depart(int64_t step, bool saving);

  // The call that saves train step `step` has returned; saving as above.
  void saved(int64_t step, bool saving);
  // No further save at train step `step` is to be asked for: its state was saved, or is about to be.
  void settle(int64_t step) { settled_step_ = step; }
  // Train step `step` was restored; train steps begin anew there.
  void restored(int64_t step);

  // The save is over: StepTimes::take_slowdown().
  std::optional<double> take_slowdown() { return step_times_.take_slowdown(); }
  void set_prediction(const SavePrediction& prediction) { prediction_ = prediction; }

  // Seconds between saves by time without dlrun; 0: there are none.
  double interval_s() const;
  // Train step at which the program was told to exit; -1: none.
  int64_t exit_step() const { return exit_step_; }
  bool exits_at(int64_t step) const { return exit_step_ == step; }
  // Whether the save at that train step has only time for the node-local level.
  bool local_save_at(int64_t step) const { return exit_local_ && exit_step_ == step; }

 private:
  bool due_by_time(int64_t step);

  const Rules rules_;
  const Clock now_;
  SavePrediction prediction_;
  StepTimes step_times_;            // if measures()
  std::optional<AgreedPace> pace_;  // after agree_through()
  double last_save_s_;
  int64_t settled_step_ = -1;
  int64_t exit_step_ = -1;
  bool exit_local_ = false;
};

}  // namespace dl::ckpt
