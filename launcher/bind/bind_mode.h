// SPDX-License-Identifier: Apache-2.0
// dlrun --bind: whether learners are bound to CPUs, and how. Names and their meaning alone; nothing of hwloc.
#pragma once

#include <string_view>

#include "common/base/result.h"

namespace dl::bind {

enum class BindMode {
  kNone,   // each learner may use all CPUs of the job on its node
  kCores,  // these are divided among the learners of the node, neighbours together
  kNuma,   // each has the CPUs of one NUMA node of them, that of its GPUs if it is known, and its memory first
};

// "none", "cores" or "numa"; else kInvalid "'x' is not a way to bind; allowed: none, cores, numa".
Result<BindMode> parse_bind(std::string_view text);
const char* bind_name(BindMode mode);

}  // namespace dl::bind
