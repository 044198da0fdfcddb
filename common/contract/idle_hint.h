// SPDX-License-Identifier: Apache-2.0
// What dlrun writes into its job's comment about GPUs that the job holds and does not use: "idle=GPUS@SINCE". Users may
// write to the comment, so this is a hint and never trusted. Nothing is gained by forging it: a user who removes it
// keeps idle GPUs, which any useless computation would achieve too, and one who sets it gives up GPUs of his own. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace dl {

struct IdleHint {
  int gpus = 0;         // 0: none are known to be idle
  int64_t since_s = 0;  // Unix time: none of them has been used since
};

// "4@1789000000"; anything else is no hint.
IdleHint parse_idle_hint(std::string_view text);
// The hint within a job's whole comment, whose form launcher/record/job_comment.h describes.
IdleHint idle_hint_in(std::string_view comment);

}  // namespace dl
