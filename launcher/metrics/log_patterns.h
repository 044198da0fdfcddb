// SPDX-License-Identifier: Apache-2.0
// Metrics in lines that the user has described by expressions (common/contract/metric_patterns.h).
//
// The named parts of an expression are values: "loss" is train/loss, "val_loss" validate/loss. "step" and "iteration"
// are the train step.
//
// Matching some expressions takes practically forever. So matching stops after kMostSteps steps at each place of a
// line, and an expression that was stopped in kMostGivenUp lines is not used any more; a note says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "launcher/metrics/found.h"

namespace dl::metrics {

class LogPatterns {
 public:
  static constexpr uint32_t kMostSteps = 100'000;  // of one expression from one place of a line
  static constexpr int kMostGivenUp = 100;         // lines
  static constexpr size_t kMostMatches = 64;       // of one expression in one line

  LogPatterns();
  LogPatterns(LogPatterns&&) noexcept;
  LogPatterns& operator=(LogPatterns&&) noexcept;
  ~LogPatterns();

  // kInvalid: it is not a regular expression: "'(?<loss>' is not a regular expression: missing closing parenthesis,
  // ...".
  Status add(const std::string& pattern);
  bool empty() const { return patterns_.empty(); }
  // Adds the values in a line; an expression may match several times. Returns whether any matched. If an expression is
  // not used any more from now on, *note is set to a sentence that says so.
  bool read(std::string_view line, std::vector<Found>* found, std::string* note);

 private:
  struct Pattern;
  std::vector<std::unique_ptr<Pattern>> patterns_;
};

}  // namespace dl::metrics
