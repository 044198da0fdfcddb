// SPDX-License-Identifier: Apache-2.0
// Decides when to save, and so what dlckpt_want answers: by train steps, by time, or because dlrun asks. It only
// decides: clock, progress page and saves belong to the caller. There is one exception: several ranks without dlrun
// that save by time agree through a group (agreed_pace.h).
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

// Predicted durations of a save, in seconds; 0: not known.
struct SavePrediction {
  double durable_s = 0;  // until the checkpoint is in the checkpoint directory
  double local_s = 0;    // until it is at the node-local level
  double cost_s = 0;     // training time that it costs
};

class Pacer {
 public:
  struct Rules {
    double every_s = 0;       // 0: never
    int64_t every_steps = 0;  // 0: never
    bool every_auto = false;  // by time; the interval follows from what saves cost
  };
  using Clock = std::function<double()>;  // seconds; never goes back

  Pacer(const Rules& rules, Clock now);
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;

  bool by_time() const { return rules_.every_auto || rules_.every_s > 0; }
  // Whether the cost of saves matters (every=auto): only then set_prediction() and take_slowdown() are needed.
  bool measures() const { return rules_.every_auto; }
  // From now on the ranks agree through this group when a save by time is due. For several ranks without dlrun.
  void agree_through(std::unique_ptr<Group> group);

  // The program has come to train step `step`. Each dlckpt_want calls arrive(), decide() and depart(). The time between
  // arrive() and depart(), in which ranks may wait for one another, does not count as part of a train step.
  void arrive(int64_t step);
  // Returns DLCKPT_WANT_ bits. asked: dlrun's request; nullopt without dlrun.
  int decide(int64_t step, std::optional<ProgressPage::Request> asked);
  // saving: a save is in flight during the train step that follows.
  void depart(int64_t step, bool saving);

  // The call that saves train step `step` has returned; `saving` as in depart().
  void saved(int64_t step, bool saving);
  // No further save at train step `step` will be asked for: its state was saved, or is about to be.
  void settle(int64_t step) { settled_step_ = step; }
  // Train step `step` was restored; training goes on from there.
  void restored(int64_t step);

  // To be called when the save is over: see StepTimes::take_slowdown().
  std::optional<double> take_slowdown() { return step_times_.take_slowdown(); }
  void set_prediction(const SavePrediction& prediction) { prediction_ = prediction; }

  // Seconds between saves by time without dlrun; 0: there are no saves by time.
  double interval_s() const;
  // The train step at which the program was told to exit; -1: it was not.
  int64_t exit_step() const { return exit_step_; }
  bool exits_at(int64_t step) const { return exit_step_ == step; }
  // Whether there is only time to save at the node-local level at that train step.
  bool local_save_at(int64_t step) const { return exit_local_ && exit_step_ == step; }

 private:
  bool due_by_time(int64_t step);

  const Rules rules_;
  const Clock now_;
  SavePrediction prediction_;
  StepTimes step_times_;            // only used if measures()
  std::optional<AgreedPace> pace_;  // set by agree_through()
  double last_save_s_;
  int64_t settled_step_ = -1;
  int64_t exit_step_ = -1;
  bool exit_local_ = false;
};

}  // namespace dl::ckpt
