// SPDX-License-Identifier: Apache-2.0
// Letters of ASCII in lower case. Pure.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace dl {

inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace dl
