// SPDX-License-Identifier: Apache-2.0
// What dl-preflight found on one node: one line of JSON on its standard output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/common/result.h"

namespace dl::preflight {

// kWarning: the job starts, and is told. kBad: no learner should stand on this node. kSkipped: cannot be checked here.
enum class Grade { kGood, kWarning, kBad, kSkipped };
const char* grade_name(Grade grade);  // "good", "warning", "bad", "skipped"

struct CheckResult {
  std::string name;  // of the table in checks.cpp
  std::string unit;  // of the value: "B", "B/s", "FLOP/s", "s", "" for a plain number
  std::optional<double> value;
  Grade grade = Grade::kGood;
  double age_s = 0;  // how long ago it was measured; more than 0: from the node's cache
  std::string text;  // why, where it is not good: "/dev/shm has 12 MiB free; at least 64 MiB are needed"
};

struct NodeReport {
  std::string node;
  int64_t time_ms = 0;  // Unix time on the node when the checks began
  std::vector<CheckResult> checks;
};

std::string format_report(const NodeReport& report);  // without the newline
// kInvalid for anything else.
Result<NodeReport> parse_report(const std::string& line);

}  // namespace dl::preflight
