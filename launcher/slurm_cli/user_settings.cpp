// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_cli/user_settings.h"

#include <cstring>
#include <string_view>

extern char** environ;

namespace dl::slurm_cli {
namespace {

constexpr std::string_view kPrefixesOfSettings[] = {"SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_", "SCANCEL_", "SPRIO_"};

}  // namespace

std::vector<std::string> user_settings() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name(*entry, std::strcspn(*entry, "="));
    for (const std::string_view prefix : kPrefixesOfSettings)
      if (name.rfind(prefix, 0) == 0) names.emplace_back(name);
  }
  return names;
}

}  // namespace dl::slurm_cli
