// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/grace_budget.h"

#include <fmt/core.h>

#include <algorithm>

namespace dl::supervise {
namespace {

constexpr int64_t kLimitMarginMs = 15000;

std::string seconds(int64_t ms) {
  return ms < 10000 ? fmt::format("{:.1f} s", static_cast<double>(std::max<int64_t>(ms, 0)) / 1000)
                    : fmt::format("{} s", (ms + 500) / 1000);
}

int64_t needed(uint64_t save_ms, uint64_t step_ms) {
  if (save_ms == 0) return 0;
  return static_cast<int64_t>(save_ms) * 13 / 10 + 2 * static_cast<int64_t>(step_ms) + kPutBackMs;
}

}  // namespace

int64_t time_needed_ms(const SaveTimes& times) {
  return needed(times.save_ms, times.step_ms);
}

int64_t local_time_needed_ms(const SaveTimes& times) {
  return needed(times.local_ms, times.step_ms);
}

GraceDecision decide_grace(const SaveTimes& times, std::optional<int64_t> remaining_ms) {
  GraceDecision decision;
  const int64_t shared = time_needed_ms(times), local = local_time_needed_ms(times);
  if (!remaining_ms || shared <= *remaining_ms) return decision;
  decision.local = local > 0 && local <= *remaining_ms;
  decision.save = decision.local;
  decision.text =
      decision.local
          ? fmt::format("saving on the nodes alone: a save in the checkpoint directory takes {}, and {} are left",
                        seconds(shared), seconds(*remaining_ms))
          : fmt::format("not saved: a save takes {}, and {} are left", seconds(local > 0 ? local : shared),
                        seconds(*remaining_ms));
  return decision;
}

int64_t time_limit_lead_ms(const SaveTimes& times, int64_t signal_lead_ms, int64_t time_limit_ms) {
  int64_t lead = times.save_ms > 0 ? time_needed_ms(times) + kLimitMarginMs : signal_lead_ms;
  return std::clamp<int64_t>(lead, 0, std::max<int64_t>(time_limit_ms / 4, 0));
}

}  // namespace dl::supervise
