// SPDX-License-Identifier: Apache-2.0
// Measures how much a save in the background slows training down: compares train steps during a save with the median of
// those without a save. every=auto needs this as part of the cost of a save. Pure: the caller passes the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace dl::ckpt {

class StepTimes {
 public:
  static constexpr size_t kRemembered = 63;  // number of train steps without a save that are remembered
  static constexpr size_t kLeast = 5;        // from fewer no slowdown is computed

  // Training goes on at now_s, before train step `step`. saving: a save is in flight. The time since the last end()
  // does not count (for example the call that saves).
  void begin(double now_s, int64_t step, bool saving);
  // Training has come to train step `step`. No effect if no train step was run since begin().
  void end(double now_s, int64_t step);
  // Discards the train step that was begun (after a restore).
  void drop() { running_ = false; }
  // To be called when the save is over. Returns by how many seconds it has slowed train steps down since the last call,
  // without the call that saves. nullopt if there were train steps during the save but too few without one to compare
  // them with. A train step that began during the save counts as a whole.
  std::optional<double> take_slowdown();

 private:
  bool running_ = false, beside_ = false;
  double start_s_ = 0;
  int64_t start_step_ = 0;
  std::deque<double> alone_;  // durations of train steps without a save, in seconds
  double beside_s_ = 0;       // total duration of the train steps during this save
  int64_t beside_steps_ = 0;
};

}  // namespace dl::ckpt
