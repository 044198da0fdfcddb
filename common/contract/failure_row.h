// SPDX-License-Identifier: Apache-2.0
// Classes of failure that a site adds, each by a [[failure]] table of dl.toml: which text in the log of a failed
// learner means that class, and what dlrun then does. The built-in classes are in launcher/supervise/failure_class.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dl {

// Whose fault it is: the program's, or the node's, network's or storage's.
enum class Fault { kYours, kOurs };
const char* fault_name(Fault fault);  // "yours", "ours"

enum class Answer {
  kRestart,  // start the learners again in the allocation, as --dl-restarts allows
  kExclude,  // put the job back with the learner's node excluded; where it cannot be put back, as kRestart
  kRequeue,  // put the job back; where it cannot be put back, as kRestart
  kHold,     // put the job back, held, for a person to look at; where it cannot be put back, as kFail
  kFail,     // the job fails at once
};
std::optional<Answer> parse_answer(const std::string& name);  // "restart", "exclude", "requeue", "hold", "fail"

struct FailureRow {
  std::string pattern;             // POSIX extended regular expression, for any one line
  std::string name;                // of the class: a built-in one, or a new one (a plain name)
  std::optional<Answer> answer;    // none: the built-in class's, kRestart for a new one
  std::optional<Fault> fault;      // none: the built-in class's, kOurs for a new one
  std::optional<int> budget = {};  // restarts for this class in one run; none: the built-in class's, else no own limit
};

constexpr size_t kMaxFailureRows = 64;
constexpr size_t kMaxPatternBytes = 200;

// Whether `pattern` is allowed: 1 to kMaxPatternBytes printable bytes, a valid POSIX extended regular
// expression without intervals ("x{2}"), since short patterns with those can take unlimited time. If it is not, *why
// tells the reason.
bool is_log_pattern(const std::string& pattern, std::string* why);

// The first line that the pattern matches, or none; a pattern that is_log_pattern() refuses matches nothing.
std::optional<std::string> find_line(const std::string& pattern, const std::vector<std::string>& lines);

}  // namespace dl
