// SPDX-License-Identifier: Apache-2.0
// The hint that dlrun writes into its job's comment about GPUs that the job holds and does not use: "idle=GPUS@SINCE".
// Users may change the comment, so the hint is never trusted. Forging it gains nothing: a user who removes it keeps
// idle GPUs, which any useless computation would achieve too, and one who sets it gives up GPUs of his own. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace dl {

struct IdleHint {
  int gpus = 0;         // 0: the job has no GPUs known to be idle
  int64_t since_s = 0;  // Unix time since which all of them have been unused
};

// Reads "4@1789000000"; any other text gives no idle GPUs.
IdleHint parse_idle_hint(std::string_view text);
// Finds the hint within a job's whole comment, whose form launcher/record/job_comment.h describes.
IdleHint idle_hint_in(std::string_view comment);

}  // namespace dl
