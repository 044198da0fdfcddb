// SPDX-License-Identifier: Apache-2.0
// Compares simulated waits with those that a cluster really had (the field `waited` of traces). Pure, except for the
// replays, which the caller passes in as a function.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "slurm-plugin/sim/engine/engine.h"
#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {

// Jobs that were submitted within a part of the trace's time, 0 to 1, the end excluded.
struct Window {
  double from = 0;
  double to = 1;
};
constexpr Window kFirstHalf{0, 0.5};
constexpr Window kSecondHalf{0.5, 1.01};
constexpr Window kAll{0, 1.01};

// Pairs of waits in seconds: the real one (only jobs of which it is known) and the simulated one, in the same order. A
// job that never started in the simulation counts with the whole time of the simulation.
struct WaitPairs {
  std::vector<double> real;
  std::vector<double> simulated;
};
WaitPairs wait_pairs(const Trace& trace, const Outcome& outcome, const Window& window);
// The same for jobs of one size_class().
WaitPairs wait_pairs(const Trace& trace, const Outcome& outcome, const Window& window, size_t size);

// How far two sets of waits are apart, as a factor of at least 1. Both sets are sorted, and the ratios of the waits at
// equal places are averaged as logarithms (a minute is added to each wait, so that seconds count little). Jobs are not
// compared one by one, since it is chance which of two similar jobs starts first.
double factor_between(WaitPairs pairs);

// The settings that a trace does not contain, and that calibrate() fits. It tries a few values of each.
struct Fitted {
  double unavailable = 0;  // part of the nodes
  int64_t interval_s = 0;
  int64_t yield_s = 30;
  int64_t restart_s = -1;  // of all jobs; -1: the values of the trace
};
struct FittedField {
  const char* option;  // of dlsim run
  bool only_quotas;    // without effect under policies without quotas, which stop no job
  int values;          // number of values that are tried
  void (*set)(int value, Fitted* fitted);
  std::string (*print)(const Fitted& fitted);  // as the value of the option; empty: it is as it was
};
const std::vector<FittedField>& fitted_fields();

struct Calibration {
  Fitted best;
  int replays = 0;
  // factor_between() with the given and with the fitted values: in the first half of the trace, to which they were
  // fitted, and in the second half, which was not used for that.
  double first_before = 1, first_after = 1, second_before = 1, second_after = 1;
};
using ReplayWith = std::function<Result<Outcome>(const Fitted& fitted)>;
// Tries the values of one field after another and keeps those that make the factor smaller; goes through all fields at
// most twice. `begin` has the given values. Errors: those of the replays.
Result<Calibration> calibrate(const Trace& trace, const SimPolicy& policy, const Fitted& begin,
                              const ReplayWith& replay_with);
// The options that differ: "--unavailable 0.1 --interval 60s". Empty: nothing was better than the given values.
std::string options_of(const Calibration& calibration, const Fitted& begin);

// Table and picture of a comparison. The picture shows the part of the jobs that started within a time, real and
// simulated.
std::string compare_text(const Trace& trace, const std::vector<Outcome>& outcomes, bool sizes);
std::string compare_svg(const Trace& trace, const std::vector<Outcome>& outcomes, const std::string& title);

}  // namespace dl::sim
