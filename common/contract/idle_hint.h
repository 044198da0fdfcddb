// SPDX-License-Identifier: Apache-2.0
// What dlrun says in its job's comment about GPUs that the job holds and does not use: "idle=GPUS@SINCE". The comment
// is the user's to write, so this is a hint, never a fact: who clears it keeps GPUs that he does not use, which he
// could as well by letting them compute nothing; who sets it gives his own away. Pure.
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
// That of a job's whole comment, as launcher/record/job_comment.h describes it.
IdleHint idle_hint_in(std::string_view comment);

}  // namespace dl
