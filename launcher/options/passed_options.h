// SPDX-License-Identifier: Apache-2.0
// Options of sbatch that dlrun --submit takes under the same name and writes into the script as "#SBATCH" lines.
#pragma once

#include <cstddef>

namespace dl::submit {

struct PassedOption {
  const char* name;   // without "--"; as in sbatch
  const char* value;  // the word for its value in help texts
  const char* help;
};

extern const PassedOption kPassedOptions[];
extern const size_t kPassedOptionCount;

}  // namespace dl::submit
