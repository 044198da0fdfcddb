// SPDX-License-Identifier: Apache-2.0
#include "common/process/signal_sets.h"

#include <cstdlib>
#include <string>

#include "common/base/atomic_file.h"

namespace dl {

std::optional<SignalSets> signal_sets_of(pid_t process) {
  constexpr size_t kMost = 16384;
  const auto text = read_small_file("/proc/" + std::to_string(process) + "/status", kMost);
  if (!text) return std::nullopt;
  const auto set = [&](const std::string& name) -> std::optional<uint64_t> {
    const size_t at = text->find(name);
    if (at == std::string::npos) return std::nullopt;
    return std::strtoull(text->c_str() + at + name.size(), nullptr, 16);
  };
  const auto caught = set("\nSigCgt:"), ignored = set("\nSigIgn:");
  if (!caught || !ignored) return std::nullopt;
  return SignalSets{*caught, *ignored};
}

}  // namespace dl
