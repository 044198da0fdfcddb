// SPDX-License-Identifier: Apache-2.0
// dlrun --bind: whether and how learners are bound to CPUs. This file has only the modes and their names, and does not
// use hwloc.
#pragma once

#include <string_view>

#include "common/base/result.h"

namespace dl::bind {

enum class BindMode {
  kNone,   // each learner may use all CPUs of the job on its node
  kCores,  // the job's CPUs are divided among the learners of the node; neighbouring CPUs stay together
  kNuma,   // each learner has the CPUs of one NUMA node, that of its GPUs if known, and prefers its memory
};

// "none", "cores" or "numa"; else kInvalid "'x' is not a way to bind; allowed: none, cores, numa".
Result<BindMode> parse_bind(std::string_view text);
const char* bind_name(BindMode mode);

}  // namespace dl::bind
