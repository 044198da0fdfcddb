// SPDX-License-Identifier: Apache-2.0
// every=auto: how long to train between two checkpoints. Pure.
//
// A checkpoint costs delta seconds of training; without one, an interruption loses what was done since the last. With
// interruptions that come at random, M seconds apart in the mean, the least time is lost with the interval
//
//   Young (1974):  T = sqrt(2 delta M)
//   Daly (2006):   T = sqrt(2 delta M) [1 + sqrt(delta / 2M) / 3 + (delta / 2M) / 9] - delta     for delta < 2M
//                  T = M                                                                         otherwise
//
// J. W. Young, "A first order approximation to the optimum checkpoint interval", Comm. ACM 17 (1974); J. T. Daly, "A
// higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22
// (2006). T is the training between two checkpoints; it also holds where saves happen at train steps only.
//
// delta is the training time that a save costs: the time for which the training loop is blocked, and the time by which
// train steps are slower during the save; not the time until the checkpoint is durable, since that passes in the
// background. Interruptions that were announced in time (preemption, time limit, pause) lose nothing and do not count.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

// All functions are inline: the plugins link this room too, and must not need libm.

namespace dl {

// Daly's T in seconds; delta and mean_time in seconds, mean_time > 0. 0 where delta is 0.
inline double daly_interval_s(double delta_s, double mean_time_s) {
  if (!(delta_s > 0)) return 0;
  if (delta_s >= 2 * mean_time_s) return mean_time_s;
  const double ratio = delta_s / (2 * mean_time_s);
  return std::sqrt(2 * delta_s * mean_time_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - delta_s;
}

// Mean time between unannounced interruptions, estimated from `running_s` seconds of training with `interruptions` of
// them. The estimate starts from the assumption of one interruption in 24 h, so without any it is 24 h plus the time
// run.
constexpr double kPriorInterruption_s = 86400;
inline double mean_time_to_interruption_s(double running_s, int64_t interruptions) {
  return (kPriorInterruption_s + std::max(running_s, 0.0)) /
         static_cast<double>(1 + std::max<int64_t>(interruptions, 0));
}

struct SaveCosts {
  // training time that one save costs: the loop is blocked, and the train steps during the save are slower
  double cost_s = 0;
  double durable_s = 0;  // time until one save is durable; 0: no save was measured yet
};
constexpr double kUnmeasuredInterval_s = 60;  // time until the first save, which is then measured
constexpr double kMaxInterval_s = 3600;
// Seconds from one save to the next: Daly's interval, but at least one second and at least the time until a save is
// durable (only one save is in flight at a time), and at most an hour.
inline double choose_interval_s(const SaveCosts& costs, double mean_time_s) {
  if (costs.durable_s <= 0) return kUnmeasuredInterval_s;
  const double least = std::max(1.0, costs.durable_s);
  // If a save itself takes longer than the upper limit, the interval is as long as the save.
  return std::clamp(daly_interval_s(costs.cost_s, mean_time_s), least, std::max(least, kMaxInterval_s));
}

}  // namespace dl
