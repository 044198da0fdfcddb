// SPDX-License-Identifier: Apache-2.0
// What a process does with signals, as the kernel says it. Linux only; any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace dl {

// Bit N - 1 stands for signal N.
struct SignalSets {
  uint64_t caught = 0, ignored = 0;
  static bool has(uint64_t set, int signal) { return (set >> (signal - 1) & 1U) != 0; }
};

// Of /proc/PID/status. Nothing if it cannot be read: the process has ended.
std::optional<SignalSets> signal_sets_of(pid_t process);

}  // namespace dl
