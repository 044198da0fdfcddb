// SPDX-License-Identifier: Apache-2.0
// Reads lists of numbers such as "0.5,0.65,0.85", the loads of a sweep.
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/parse.h"

namespace dl::sim {

inline Result<std::vector<double>> parse_numbers(const char* option, const std::string& text, double least,
                                                 double most) {
  const auto refuse = [&](const std::string& word) {
    return Error{Errc::kInvalid,
                 fmt::format("{}: '{}' is not accepted; allowed: numbers from {:g} to {:g}, with commas", option,
                             printable(word), least, most)};
  };
  std::vector<double> found;
  for (const std::string& word : split(text, ',')) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0' || !std::isfinite(value) || value < least || value > most) return refuse(word);
    found.push_back(value);
  }
  if (found.empty()) return refuse("");
  return found;
}

}  // namespace dl::sim
