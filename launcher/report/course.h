// SPDX-License-Identifier: Apache-2.0
// The course of a job: its states over time, its attempts, what was saved and what failed, from its events. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/record/event_log.h"

namespace dl::report {

// A state that lasted.
struct Span {
  int attempt = 0;
  record::JobState state = record::JobState::kPending;
  int64_t from_ms = 0, to_ms = 0;
};

struct AttemptLine {
  int number = 0;
  int64_t began_ms = 0, ended_ms = 0;  // ended_ms 0: it has not ended, or that was not recorded
  int64_t trained_ms = 0;              // while all learners ran
  std::optional<record::JobState>
      end;  // COMPLETED, FAILED, HALTED, PENDING; none: another attempt followed, or none is known
  std::string why;
  int64_t saved_step = -1;
};

struct Save {
  int attempt = 0;
  int64_t time_ms = 0, step = 0;
};

struct Course {
  std::vector<Span> spans;  // one after the other
  std::vector<AttemptLine> attempts;
  std::vector<Save> saves;
  std::vector<const record::Event*> failures;  // of learners and of the job, in their order
  std::vector<const record::Event*> changes;   // all other events that people want to read
  int64_t from_ms = 0, to_ms = 0;              // of all spans
  bool cut_off = false;                        // the job does not go on, and its record has no end
};

// events: must outlive what is returned. goes_on: the last state lasts until now_ms. Times that run back, as after a
// change of a clock, count as the time before them, and those after now_ms as now_ms.
Course course_of(const std::vector<record::Event>& events, bool goes_on, int64_t now_ms);

}  // namespace dl::report
