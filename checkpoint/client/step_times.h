// SPDX-License-Identifier: Apache-2.0
// How much a save that runs on in the background slows training down: train steps beside it against the median of those
// without one. For every=auto, whose cost of a save is what it takes from training in all. Pure: the caller has the
// clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace dl::ckpt {

class StepTimes {
 public:
  static constexpr size_t kRemembered = 63;  // train steps without a save that count
  static constexpr size_t kLeast = 5;        // fewer say nothing

  // Training goes on at now_s, before train step `step`; saving: beside a save. What passed since the last end() does
  // not count (the save's own call, for one).
  void begin(double now_s, int64_t step, bool saving);
  // Training has come to train step `step`. Nothing if no train step was run since begin().
  void end(double now_s, int64_t step);
  // What was begun is not to be counted (a restore).
  void drop() { running_ = false; }
  // The save is over: the seconds that it took from training since the last call, beyond its own call. nullopt if it
  // had train steps beside it and there is nothing to compare them with. A train step that was begun beside it counts
  // whole.
  std::optional<double> take_slowdown();

 private:
  bool running_ = false, beside_ = false;
  double start_s_ = 0;
  int64_t start_step_ = 0;
  std::deque<double> alone_;  // seconds of a train step
  double beside_s_ = 0;       // of all beside this save
  int64_t beside_steps_ = 0;
};

}  // namespace dl::ckpt
