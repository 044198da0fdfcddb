// SPDX-License-Identifier: Apache-2.0
// Saves by time for several ranks without dlrun. The ranks' clocks differ, so only rank 0's counts. The ranks *meet* at
// a train step on which they have agreed before, and there rank 0 says whether they save now and at which train step
// they meet next. Between two meetings a rank only compares two numbers. The next meeting is at most half of the
// remaining time away, and at most a minute, so that train steps that become slower do not delay a save by much.
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
  int64_t steps = 1;  // number of train steps to the next meeting, at least 1
};
// left_s: seconds until the next save is due; interval_s: from one save to the next, > 0; step_s: duration of a train
// step, as just measured; former_steps: train steps since the previous meeting. The next hop is at most four times as
// long as that, since a few quick train steps prove little.
Hop choose_hop(double left_s, double interval_s, double step_s, int64_t former_steps);

class AgreedPace {
 public:
  struct Clock {
    double now_s = 0, left_s = 0, interval_s = 0;
  };

  // `clock` is called only on rank 0, and only at meetings.
  AgreedPace(std::unique_ptr<Group> group, std::function<Clock()> clock);

  // Whether to save before train step `step`. All ranks call it for the same train steps and get the same answer. At a
  // meeting it may wait for rank 0. A rank that does not receive rank 0's message in time misses that save, and agrees
  // with the others again once it has received it.
  bool due(int64_t step);
  // To be called after a restore, on all ranks: train steps begin again.
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
  int64_t hop_ = 1;                  // train steps from the last meeting to the next one
  std::optional<Decision> decided_;  // received, but meant for a train step that this rank has not reached yet
  bool failed_ = false;              // receiving or sending failed at the last meeting
  int64_t met_step_ = 0;             // rank 0: train step of the last meeting
  double met_s_ = 0;
};

}  // namespace dl::ckpt
