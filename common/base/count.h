// SPDX-License-Identifier: Apache-2.0
// Writes a number together with what it counts. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dl {

// "1 node", "2 nodes", "0 nodes". `noun` is the singular; the plural is formed with an "s".
inline std::string count_text(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace dl
