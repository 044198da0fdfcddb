// SPDX-License-Identifier: Apache-2.0
// What happened: failures with the last lines of their learners, and the other events.
#include <algorithm>

#include "launcher/report/section.h"
#include "launcher/report/words.h"

namespace dl::report {
namespace {

constexpr size_t kFirstFailures = 20, kLastFailures = 40, kFirstEvents = 40, kLastEvents = 110;

std::string who(const record::Event& event) {
  if (!event.learner) return "job";
  return "learner " + std::to_string(*event.learner) + (event.host.empty() ? "" : " on " + event.host);
}

std::string attempt_of(const record::Event& event) {
  return event.attempt > 0 ? std::to_string(event.attempt) : "";
}

// The end of each log, with a title of its own.
void logs(const std::vector<LastLines>& all, Html* html) {
  for (size_t i = 0; i < std::min(all.size(), kMostLogs); ++i) {
    const LastLines& log = all[i];
    html->markup("<h3>The last lines of learner ");
    html->number(log.rank).markup(" in attempt ");
    html->number(log.attempt).markup("</h3>\n");
    if (log.lines.empty()) {
      html->markup("<p>").text(log.missing.empty() ? "It has written nothing." : log.missing).markup("</p>\n");
      continue;
    }
    html->markup("<pre>");
    for (size_t at = log.lines.size() - std::min(log.lines.size(), kMostLogLines); at < log.lines.size(); ++at)
      html->text(plain_line(std::string_view(log.lines[at]).substr(0, kMostLineBytes))).markup("\n");
    html->markup("</pre>\n");
  }
}

}  // namespace

void write_failures(const Material& of, Html* html) {
  if (of.course.failures.empty()) return;
  {
    Table table(html, {"Time", "#Attempt", "Who", "Class", "#Exit", "Code", "What"});
    first_and_last(
        of.course.failures, kFirstFailures, kLastFailures,
        [&](const record::Event* event) {
          table.row({when(event->time_ms), attempt_of(*event), who(*event), event->failure,
                     event->exit ? std::to_string(*event->exit) : "", event->code, event->reason});
        },
        [&](size_t count) { table.line(std::to_string(count) + " more failures"); });
  }
  logs(of.data.last_lines, html);
}

void write_last_lines(const Material& of, Html* html) {
  if (of.course.failures.empty()) logs(of.data.last_lines, html);
}

void write_events(const Material& of, Html* html) {
  if (of.course.changes.empty()) return;
  html->markup("<p class=\"soft\">Without failures and saves, which have sections of their own.</p>\n");
  Table table(html, {"Time", "#Attempt", "Who", "State", "#Saved step", "Why"});
  first_and_last(
      of.course.changes, kFirstEvents, kLastEvents,
      [&](const record::Event* event) {
        const bool has_code = !event->code.empty() && event->code != "000";
        table.row({when(event->time_ms), attempt_of(*event), who(*event), record::state_name(event->state),
                   event->step ? number_or_none(*event->step) : "",
                   has_code ? event->reason + " [" + event->code + "]" : event->reason});
      },
      [&](size_t count) { table.line(std::to_string(count) + " more events"); });
}

}  // namespace dl::report
