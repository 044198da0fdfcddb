// SPDX-License-Identifier: Apache-2.0
// Classes of failure that a site adds, each by a [[failure]] table of dl.toml: which text in the log of a failed
// learner means that class, and what dlrun then does. The built-in classes are in launcher/supervise/failure_class.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dl {

// Who is to blame: the user's program ("yours"), or a node, the network or the storage ("ours").
enum class Fault { kYours, kOurs };
const char* fault_name(Fault fault);  // "yours", "ours"

enum class Answer {
  kRestart,  // start the learners again in the allocation, as --dl-restarts allows
  kExclude,  // put the job back with the learner's node excluded; if it cannot be put back, as kRestart
  kRequeue,  // put the job back; if it cannot be put back, as kRestart
  kHold,     // put the job back and hold it, so that a person looks at it; if it cannot be put back, as kFail
  kFail,     // the job fails at once
};
std::optional<Answer> parse_answer(const std::string& name);  // "restart", "exclude", "requeue", "hold", "fail"

struct FailureRow {
  std::string pattern;           // POSIX extended regular expression; each line of the log is matched by itself
  std::string name;              // name of the class: a built-in one, or a new one (a plain name)
  std::optional<Answer> answer;  // none: that of the built-in class; for a new class kRestart
  std::optional<Fault> fault;    // none: that of the built-in class; for a new class kOurs
  // most restarts for this class in one run; none: that of the built-in class; for a new class no limit
  std::optional<int> budget = {};
};

constexpr size_t kMaxFailureRows = 64;
constexpr size_t kMaxPatternBytes = 200;

// Whether `pattern` is allowed: 1 to kMaxPatternBytes printable bytes, and a valid POSIX extended regular expression
// without intervals ("x{2}"), since matching even a short pattern with intervals can take unlimited time. If it is not
// allowed, *why says the reason.
bool is_log_pattern(const std::string& pattern, std::string* why);

// The first line that the pattern matches, or none. A pattern that is_log_pattern() refuses matches nothing.
std::optional<std::string> find_line(const std::string& pattern, const std::vector<std::string>& lines);

}  // namespace dl
