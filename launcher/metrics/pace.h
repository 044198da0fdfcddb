// SPDX-License-Identifier: Apache-2.0
// How fast a training goes, and how much of it is left, from the series of one learner in one attempt. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/metrics/series.h"

namespace dl::metrics {

struct Pace {
  // Train steps and samples a second, as measured last; none: unknown. rate_ms: when that was, since the epoch.
  std::optional<double> steps_per_s, samples_per_s;
  int64_t rate_ms = 0;
  std::string loss_name;         // chosen by the learner's program: hostile
  std::optional<double> loss;    // the newest value of this training loss
  int64_t step = kNoStep;        // the newest train step
  int64_t total = 0;             // train steps of the whole training; 0: unknown
  int64_t saved_ms = 0;          // when a save was complete, since the epoch; 0: none was seen
  int64_t between_saves_ms = 0;  // time between the last two saves; 0: unknown
};

// The rate is the one that the launcher measures (train_steps_per_s), else it is computed from the train steps and
// times of the newest values. The length of the training is what the program reports as "total_steps", else what its
// log counts to, if that agrees with the train steps.
Pace pace_of(const SeriesFile& file);

// Whether the rate still holds at `now_ms` (ms since the epoch): it is not older than a minute, or than five train
// steps take if that is longer.
bool is_fresh(const Pace& pace, int64_t now_ms);

// What the learners of a job use at `now_ms`, from the series that dlrun writes of it (group "use"); none: not
// measured.
struct UseNow {
  std::optional<double> gpu_percent;  // of the time in which a kernel ran on their GPUs
  std::optional<double> cpus;         // how many they keep busy
};
UseNow use_now(const SeriesFile& file, int64_t now_ms);

// How long the rest of the training takes from train step `step` on, in ms; none: unknown.
std::optional<int64_t> left_ms(const Pace& pace, int64_t step);

// When the next save is due, since the epoch; 0: unknown. every_ms, every_steps: the interval that the job has asked
// for, 0: not in this form. `began_ms`: when training began, for the time before the first save.
int64_t next_save_ms(const Pace& pace, int64_t every_ms, int64_t every_steps, int64_t step, int64_t began_ms,
                     int64_t now_ms);

}  // namespace dl::metrics
