// SPDX-License-Identifier: Apache-2.0
// How fast a job trains, what remains of it, and when it is expected to end, for `dlctl status` and `dlctl top`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/json/json.h"
#include "launcher/metrics/pace.h"

namespace dl::ctl {

struct JobView;

struct JobPace {
  metrics::Pace pace;
  metrics::UseNow use;              // only while it trains
  int64_t step = -1;                // the newest train step, of the job's view or of its values; -1: unknown
  bool active = false;              // its learners train
  bool current = false;             // the rate is that of this moment
  std::optional<int64_t> left_ms;   // what the rest of the training takes
  std::optional<int64_t> end_ms;    // when it is expected to end, since the epoch; only while it trains
  std::optional<int64_t> limit_ms;  // when its time limit ends, since the epoch
  int64_t next_save_ms = 0;         // since the epoch; 0: unknown
};

// Reads the series of the newest attempt; what cannot be read stays unknown. Call act_as_owner() before, or from within
// made_as_owner().
JobPace read_pace(const JobView& view, int64_t now_ms);
// What it decides, without a file. Pure.
JobPace pace_of_job(const JobView& view, metrics::Pace pace, int64_t now_ms);

// "2.1 train steps a second, 67 samples a second". Empty: unknown.
std::string rate_words(const JobPace& pace);
// "600 of 1000 train steps, 4m45s". Empty: unknown.
std::string left_words(const JobPace& pace);
// "about 14:05:09"; what it says where the time limit ends before. Empty: unknown.
std::string end_words(const JobPace& pace, int64_t now_ms);
// The members that `dlctl status --json` has of it.
void add_pace(const JobPace& pace, Json* json);

}  // namespace dl::ctl
