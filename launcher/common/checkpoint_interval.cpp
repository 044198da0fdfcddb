// SPDX-License-Identifier: Apache-2.0
#include "launcher/common/checkpoint_interval.h"

#include <algorithm>
#include <cmath>

namespace dl {

double daly_interval_s(double delta_s, double mean_time_s) {
  if (!(delta_s > 0)) return 0;
  if (delta_s >= 2 * mean_time_s) return mean_time_s;
  const double ratio = delta_s / (2 * mean_time_s);
  return std::sqrt(2 * delta_s * mean_time_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - delta_s;
}

double mean_time_to_interruption_s(double running_s, int64_t interruptions) {
  return (kPriorInterruption_s + std::max(running_s, 0.0)) /
         static_cast<double>(1 + std::max<int64_t>(interruptions, 0));
}

double choose_interval_s(const SaveCosts& costs, double mean_time_s) {
  if (costs.durable_s <= 0) return kUnmeasuredInterval_s;
  const double least = std::max(1.0, costs.durable_s);
  // The upper limit yields where a save itself takes longer than that.
  return std::clamp(daly_interval_s(costs.blocked_s, mean_time_s), least, std::max(least, kMaxInterval_s));
}

}  // namespace dl
