// SPDX-License-Identifier: Apache-2.0
// Paths as users write them.
#pragma once

#include <string>

#include "common/base/this_process.h"

namespace dl::data {

// The path with "~/" at its front, or "~" alone, replaced by the user's home.
inline std::string at_home(const std::string& path) {
  if (path != "~" && path.compare(0, 2, "~/") != 0) return path;
  const std::string home = environment_value("HOME");
  return home.empty() ? path : home + path.substr(1);
}

}  // namespace dl::data
