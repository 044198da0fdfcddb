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
// delta is what a save takes from training: the time the training loop is blocked, not the time until the checkpoint is
// durable, since that passes in the background. Interruptions that were announced in time (preemption, time limit,
// pause) lose nothing and do not count.
#pragma once

#include <cstdint>

namespace dl {

// Daly's T in seconds; delta and mean_time in seconds, mean_time > 0. 0 where delta is 0.
double daly_interval_s(double delta_s, double mean_time_s);

// Mean time between unannounced interruptions: `running_s` of training with `interruptions` of them, and what is
// assumed before anything is known: one in 24 h. So with no interruption so far it is 24 h plus the time run.
constexpr double kPriorInterruption_s = 86400;
double mean_time_to_interruption_s(double running_s, int64_t interruptions);

struct SaveCosts {
  double blocked_s = 0;  // that one save keeps the training loop waiting (slow-down added, where it is known)
  double durable_s = 0;  // until one save is durable; 0: no save was measured yet
};
constexpr double kUnmeasuredInterval_s = 60;  // to the first save, which is then measured
constexpr double kMaxInterval_s = 3600;
// Seconds from one save to the next: Daly's, at least the time a save takes to be durable (one is in flight at a time)
// and one second, at most an hour.
double choose_interval_s(const SaveCosts& costs, double mean_time_s);

}  // namespace dl
