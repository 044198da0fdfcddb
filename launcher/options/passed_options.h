// SPDX-License-Identifier: Apache-2.0
// Options of sbatch that dlrun --submit takes under the same name and hands on, as "#SBATCH" lines.
#pragma once

#include <cstddef>

namespace dl::submit {

struct PassedOption {
  const char* name;   // without "--"; as in sbatch
  const char* value;  // what its value is called in help texts
  const char* help;
};

extern const PassedOption kPassedOptions[];
extern const size_t kPassedOptionCount;

}  // namespace dl::submit
