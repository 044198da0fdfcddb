// SPDX-License-Identifier: Apache-2.0
// Saves by time for several ranks without dlrun. Clocks differ, so rank 0 alone looks at its own; the ranks *meet* at a
// train step that all have agreed on before, where rank 0 says whether they save now, and at which train step they meet
// next. Between two meetings nothing is looked at but a number. The next meeting is never put further than half of the
// time that is left, and not further than a minute away, so that train steps which become slower do not delay a save by
// much.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/client/announcer.h"

namespace dl::ckpt {

// What rank 0 decides at a meeting. Pure.
struct Hop {
  bool save = false;
  int64_t steps = 1;  // to the next meeting, at least 1
};
// left_s: until the next save is due; interval_s: from a save to the next, > 0; step_s: of a train step, as just seen;
// former_steps: the hop to this meeting, of which the next is at most four times as long (a few train steps that happen
// to be quick say little).
Hop choose_hop(double left_s, double interval_s, double step_s, int64_t former_steps);

class AgreedPace {
 public:
  struct Clock {
    double now_s = 0, left_s = 0, interval_s = 0;
  };

  // `clock` is asked on rank 0, at meetings alone.
  AgreedPace(std::unique_ptr<Group> group, std::function<Clock()> clock);

  // Whether to save before train step `step`; the same on all ranks, which all call it for the same train steps. May
  // wait for rank 0, where they meet. A rank that could not hear rank 0 in time misses that save, and is
  // back in step once it hears what was said.
  bool due(int64_t step);
  // After a restore: train steps begin anew, on all ranks alike.
  void restart();

 private:
  struct Decision {
    int64_t at = 0;
    bool save = false;
    int64_t next = 0;
  };
  bool meet(int64_t step);
  std::string decide(int64_t step);
  static std::optional<Decision> parse(const std::string& message);

  Announcer announcer_;
  std::function<Clock()> clock_;
  int64_t next_ = -1;                // train step of the next meeting; -1: none yet
  int64_t hop_ = 1;                  // to it
  std::optional<Decision> decided_;  // heard, but for a train step that this rank has not come to
  bool failed_ = false;              // to hear, or to speak, at the last meeting
  int64_t met_step_ = 0;             // rank 0: of the last meeting
  double met_s_ = 0;
};

}  // namespace dl::ckpt
