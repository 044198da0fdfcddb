// SPDX-License-Identifier: Apache-2.0
// Short forms of events and of what a report is made of, for the tests of launcher/report.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "launcher/report/report_data.h"

namespace dl::report {

constexpr int64_t kBegin = 1'789'000'000'000;

// `at_s`: seconds after kBegin.
inline record::Event event(int64_t at_s, int attempt, record::JobState state, const std::string& reason = "") {
  record::Event made;
  made.time_ms = kBegin + at_s * 1000;
  made.attempt = attempt;
  made.state = state;
  made.reason = reason;
  return made;
}

inline record::Event saved(int64_t at_s, int attempt, int64_t step) {
  record::Event made =
      event(at_s, attempt, record::JobState::kProcessing, "saved at train step " + std::to_string(step));
  made.step = step;
  return made;
}

inline record::Event learner_failed(int64_t at_s, int attempt, int rank, const std::string& reason) {
  record::Event made = event(at_s, attempt, record::JobState::kFailed, reason);
  made.learner = rank;
  made.exit = 1;
  made.failure = "exception";
  return made;
}

// A job that failed, was started again and was paused.
inline std::vector<record::Event> two_attempts() {
  using record::JobState;
  return {event(0, 1, JobState::kDeploy),
          event(10, 1, JobState::kProcessing, "all learners run"),
          saved(60, 1, 100),
          learner_failed(70, 1, 1, "ValueError: no"),
          event(72, 2, JobState::kDeploy, "restarted after a failure"),
          event(80, 2, JobState::kProcessing, "all learners run"),
          saved(140, 2, 200),
          event(150, 2, JobState::kHalted, "paused by dlctl")};
}

inline size_t count_of(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++count;
  return count;
}

inline bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

}  // namespace dl::report
