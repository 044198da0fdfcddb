// SPDX-License-Identifier: Apache-2.0
// What dl-preflight found on one node: one line of JSON on its standard output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::preflight {

// kWarning: the job starts, and the user is told. kBad: no learner should run on this node. kSkipped: cannot be
// checked.
enum class Grade { kGood, kWarning, kBad, kSkipped };
const char* grade_name(Grade grade);  // "good", "warning", "bad", "skipped"

struct CheckResult {
  std::string name;  // a name of the table in checks.cpp
  std::string unit;  // of the value: "B", "B/s", "FLOP/s", "s", "" for a plain number
  std::optional<double> value;
  Grade grade = Grade::kGood;
  double age_s = 0;  // how long ago it was measured; above 0: taken from the cache
  std::string text;  // the reason if not kGood: "/dev/shm has 12 MiB free; at least 64 MiB are needed"
};

struct NodeReport {
  std::string node;
  int64_t time_ms = 0;  // Unix time on the node when the checks began
  std::vector<CheckResult> checks;
};

std::string format_report(const NodeReport& report);  // without the newline
// The same as one line for each check, each with its line break. Slurm forwards a program's output in pieces of at most
// 1024 bytes, so that longer lines of several nodes would be mixed. Texts are cut to fit.
std::string format_report_lines(const NodeReport& report);
// Appends the checks of a parsed line to the report of its node.
void add_report(NodeReport line, std::vector<NodeReport>* reports);
// Parses a line of either form; kInvalid for anything else.
Result<NodeReport> parse_report(const std::string& line);

}  // namespace dl::preflight
