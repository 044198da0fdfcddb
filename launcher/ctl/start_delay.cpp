// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/start_delay.h"

#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {

std::optional<std::chrono::seconds> start_delay(std::optional<int64_t> eligible_s, int64_t now_s) {
  if (!eligible_s || *eligible_s <= now_s) return std::chrono::seconds(0);
  if (*eligible_s <= now_s + slurm_cli::kRequeueDelayEpilog.count()) return std::nullopt;
  return std::chrono::seconds(2);
}

}  // namespace dl::ctl
