// SPDX-License-Identifier: Apache-2.0
// Simulated waits beside those that a cluster really had (the field `waited` of traces). Pure, but for the replays that
// the caller hands in.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "slurm-plugin/sim/engine/engine.h"
#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {

// The jobs whose real wait is known, and that were submitted within a part of the trace's time.
struct Window {
  double from = 0;
  double to = 1;
};
constexpr Window kFirstHalf{0, 0.5};
constexpr Window kSecondHalf{0.5, 1.01};
constexpr Window kAll{0, 1.01};

// Waits of the same jobs. A job that never started in the simulation waited as long as the simulation lasted.
struct WaitPairs {
  std::vector<double> real;
  std::vector<double> simulated;
};
WaitPairs wait_pairs(const Trace& trace, const Outcome& outcome, const Window& window);
// The same of jobs of one size.
WaitPairs wait_pairs(const Trace& trace, const Outcome& outcome, const Window& window, size_t size);

// How far two sets of waits are apart, as a factor from 1 on: the waits of either, in order, lie so far apart on
// average (of logarithms, minutes added so that seconds count little). Not job by job: of two like jobs it is chance
// who is first.
double factor_between(WaitPairs pairs);

// What a replay cannot know and is fitted. Each has a few values that are tried.
struct Fitted {
  double unavailable = 0;
  int64_t interval_s = 0;
  int64_t yield_s = 30;
  int64_t restart_s = -1;  // of all jobs; -1: as the trace has it
};
struct FittedField {
  const char* option;  // of dlsim run
  bool only_quotas;    // policies without quotas stop nobody
  int values;
  void (*set)(int value, Fitted* fitted);
  std::string (*print)(const Fitted& fitted);  // as the option's value; empty: as it was
};
const std::vector<FittedField>& fitted_fields();

struct Calibration {
  Fitted best;
  int replays = 0;
  // Factors: as given and as fitted, in the half that it was fitted to and in the one that it never saw.
  double first_before = 1, first_after = 1, second_before = 1, second_after = 1;
};
using ReplayWith = std::function<Result<Outcome>(const Fitted& fitted)>;
// One field after another, until none gets better (at most twice over all). `begin`: as given.
Result<Calibration> calibrate(const Trace& trace, const SimPolicy& policy, const Fitted& begin,
                              const ReplayWith& replay_with);
// "--unavailable 0.1 --interval 60s"; empty: nothing was better than what was given.
std::string options_of(const Calibration& calibration, const Fitted& begin);

// Table and picture of a comparison. The picture has the part of the jobs that started within a time, real and
// simulated.
std::string compare_text(const Trace& trace, const std::vector<Outcome>& outcomes, bool sizes);
std::string compare_svg(const Trace& trace, const std::vector<Outcome>& outcomes, const std::string& title);

}  // namespace dl::sim
