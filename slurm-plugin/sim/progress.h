// SPDX-License-Identifier: Apache-2.0
// A bar on stderr for work that takes more than two seconds, if a terminal is there to see it.
#pragma once

#include <chrono>
#include <string>

namespace dl::sim {

class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();  // takes the bar away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `part`: 0 to 1. Draws at most ten times a second.
  void show(double part);

 private:
  std::string label_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace dl::sim
