// SPDX-License-Identifier: Apache-2.0
// Which Slurm runs this process.
#pragma once

namespace dl::abi {

// As SLURM_VERSION_NUMBER. Slurm gives its version to a plugin only in calls that come too late for any_slurm.h, and
// whose arguments depend on it, so it is found out by what the process has:
//   1. plugin_version of a plugin of Slurm's own that is loaded: Slurm itself has compared it, to the micro release
//   2. slurm_api_version(), which despite its name tells the version of libslurm's interface: one for each release, so
//      the micro release counts as 0. The commands of 22.05 have no plugin loaded when they load those of SPANK.
//   3. the headers that this was built with
// For a plugin's start: it goes through all libraries of the process.
unsigned int running_slurm();

// 22.05 for 38, and so on (API_CURRENT in Slurm's META); 0 below 38. Two releases a year from 41 on, May and November.
constexpr unsigned int release_of_api(long api) {
  constexpr long kFirst = 38, kTwoAYear = 41;
  constexpr unsigned int kFormer[] = {22 << 16 | 5 << 8, 23 << 16 | 2 << 8, 23 << 16 | 11 << 8};
  if (api < kFirst || api > 255) return 0;
  if (api < kTwoAYear) return kFormer[api - kFirst];
  const auto year = static_cast<unsigned int>(24 + (api - kTwoAYear) / 2);
  return year << 16 | ((api - kTwoAYear) % 2 == 0 ? 5U : 11U) << 8;
}
static_assert(release_of_api(39) == (23 << 16 | 2 << 8) && release_of_api(42) == (24 << 16 | 11 << 8) &&
                  release_of_api(45) == (26 << 16 | 5 << 8),
              "as in Slurm's META");

}  // namespace dl::abi
