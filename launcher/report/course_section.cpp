// SPDX-License-Identifier: Apache-2.0
// States and attempts: the picture, and a row for each attempt.
#include "common/base/local_time.h"
#include "launcher/report/section.h"
#include "launcher/report/timeline.h"
#include "launcher/report/words.h"

namespace dl::report {
namespace {

constexpr size_t kFirstAttempts = 20, kLastAttempts = 80;

std::string end_words(const AttemptLine& line, bool newest, const Material& of) {
  if (line.end) return record::state_name(*line.end);
  if (!newest) return "started again";
  return of.data.goes_on ? "goes on" : "not recorded";
}

}  // namespace

void write_course(const Material& of, Html* html) {
  const std::vector<AttemptLine>& attempts = of.course.attempts;
  if (of.course.spans.empty()) {
    html->markup("<p>No state of the job is recorded.</p>\n");
    return;
  }
  html->made(timeline(of.course));
  if (of.course.cut_off)
    html->markup(
        "<p>The record has no end: the program that kept it was killed, or it is not known whether it lives.</p>\n");
  if (attempts.empty()) return;
  Table table(html, {"#Attempt", "Began", "#Lasted", "#All ran", "#Saved step", "End", "Why"});
  first_and_last(
      attempts, kFirstAttempts, kLastAttempts,
      [&](const AttemptLine& line) {
        const bool newest = &line == &attempts.back();
        const int64_t until = line.ended_ms > 0 ? line.ended_ms : of.course.to_ms;
        table.row({std::to_string(line.number), when(line.began_ms), age_text(until - line.began_ms),
                   age_text(line.trained_ms), number_or_none(line.saved_step), end_words(line, newest, of), line.why});
      },
      [&](size_t count) { table.line(std::to_string(count) + " more attempts"); });
}

}  // namespace dl::report
