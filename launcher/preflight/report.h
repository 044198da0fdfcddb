// SPDX-License-Identifier: Apache-2.0
// What dl-preflight found on one node: one line of JSON on its standard output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

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
// The same in lines of one check each, all with the line break. Slurm sends what a program writes in pieces of 1024
// bytes, or whole lines no longer than that, so that the reports of several nodes would be mixed. Texts are cut to fit.
std::string format_report_lines(const NodeReport& report);
// Puts what a line said to the rest of its node's report.
void add_report(NodeReport line, std::vector<NodeReport>* reports);
// kInvalid for anything else.
Result<NodeReport> parse_report(const std::string& line);

}  // namespace dl::preflight
