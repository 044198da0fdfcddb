// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/course.h"

#include <algorithm>

namespace dl::report {
namespace {

using record::Event;
using record::JobState;

bool ends_attempt(JobState state) {
  return record::is_final(state) || state == JobState::kPending || state == JobState::kQueued;
}

// A line of each save: it changes no state, and is shown among the saves alone.
bool is_save(const Event& event) {
  return !event.learner && event.state == JobState::kProcessing && event.step && event.code.empty();
}

class Reader {
 public:
  Reader(bool goes_on, int64_t now_ms) : goes_on_(goes_on), now_ms_(now_ms) {}

  void read(const Event& event) {
    const int64_t time = time_of(event);
    if (event.learner) {
      of_learner(event);
      return;
    }
    if (event.attempt > 0 && (course_.attempts.empty() || course_.attempts.back().number != event.attempt))
      begin_attempt(event, time);
    if (event.step && (course_.saves.empty() || course_.saves.back().step != *event.step))
      course_.saves.push_back({event.attempt, time, *event.step});
    change_state(event, time);
    if (!course_.attempts.empty()) of_attempt(event, time);
    if (event.state == JobState::kFailed)
      course_.failures.push_back(&event);
    else if (!is_save(event))
      course_.changes.push_back(&event);
  }

  Course end() {
    if (!course_.spans.empty()) {
      Span& last = course_.spans.back();
      course_.cut_off = !goes_on_ && !ends_attempt(last.state);
      close(goes_on_ ? std::max(newest_ms_, now_ms_) : newest_ms_);
      course_.from_ms = course_.spans.front().from_ms;
      course_.to_ms = last.to_ms;
    }
    return std::move(course_);
  }

 private:
  int64_t time_of(const Event& event) {
    const int64_t time = std::min(event.time_ms, std::max(now_ms_, newest_ms_));
    if (time > newest_ms_) newest_ms_ = time;
    return newest_ms_;
  }

  void of_learner(const Event& event) {
    if (event.state == JobState::kFailed)
      course_.failures.push_back(&event);
    else if (!event.reason.empty() && event.state != JobState::kCompleted)
      course_.changes.push_back(&event);
  }

  void begin_attempt(const Event& event, int64_t time) {
    if (!course_.attempts.empty() && course_.attempts.back().ended_ms == 0) {
      course_.attempts.back().ended_ms = time;
      if (!event.reason.empty()) course_.attempts.back().why = event.reason;
    }
    AttemptLine line;
    line.number = event.attempt;
    line.began_ms = time;
    course_.attempts.push_back(std::move(line));
  }

  void of_attempt(const Event& event, int64_t time) {
    AttemptLine& line = course_.attempts.back();
    if (event.attempt != line.number) return;
    if (event.step) line.saved_step = std::max(line.saved_step, *event.step);
    if (!ends_attempt(event.state)) return;
    line.end = event.state;
    line.ended_ms = time;
    if (!event.reason.empty()) line.why = event.reason;
  }

  void change_state(const Event& event, int64_t time) {
    if (!course_.spans.empty()) {
      const Span& last = course_.spans.back();
      if (last.state == event.state && last.attempt == event.attempt) return;
      close(time);
    }
    course_.spans.push_back({event.attempt, event.state, time, time});
  }

  // The newest span ends.
  void close(int64_t time) {
    Span& last = course_.spans.back();
    last.to_ms = time;
    if (last.state != JobState::kProcessing) return;
    // The next attempt may have begun with the same event.
    const auto newest = course_.attempts.rbegin();
    for (auto line = newest; line != course_.attempts.rend() && line - newest < 2; ++line)
      if (line->number == last.attempt) {
        line->trained_ms += time - last.from_ms;
        return;
      }
  }

  const bool goes_on_;
  const int64_t now_ms_;
  int64_t newest_ms_ = 0;
  Course course_;
};

}  // namespace

Course course_of(const std::vector<Event>& events, bool goes_on, int64_t now_ms) {
  Reader reader(goes_on, now_ms);
  for (const Event& event : events)
    if (event.time_ms > 0) reader.read(event);
  return reader.end();
}

}  // namespace dl::report
