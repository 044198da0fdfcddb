// SPDX-License-Identifier: Apache-2.0
// All that the page about a job shows. Who makes it (launcher/ctl/report_look) puts texts in as they were found: they
// are hostile, and the page makes them harmless. What is not known is empty, or -1 where it says so.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plot/chart.h"
#include "launcher/record/event_log.h"
#include "launcher/report/plan_sheet.h"

namespace dl::report {

struct LearnerLine {
  int rank = 0;
  std::string node, gpus, state, why;
  int64_t step = -1, saved_step = -1;   // -1: unknown
  bool server = false;                  // a parameter server
  std::map<std::string, double> use{};  // in this attempt, by name (used.h)
};

// The end of a learner's log.
struct LastLines {
  int attempt = 0, rank = 0;
  std::vector<std::string> lines;  // oldest first
  std::string missing;             // why there are none; or empty
};
constexpr size_t kMostLogs = 6;          // of which the last lines are shown
constexpr size_t kMostLogLines = 24;     // of each
constexpr size_t kMostLineBytes = 2048;  // of each line, before it is cut for the page

struct ReportData {
  std::string job;         // its id, "12", or "local-..."
  std::string name, user;  // as Slurm has them
  std::string state, why;  // the state that dlctl status shows
  int64_t since_ms = 0;    // in this state; 0: unknown
  bool goes_on = false;    // it runs, waits or is paused: its last state lasts until now
  int64_t now_ms = 0;      // when the report was made
  std::string made_by;     // name and version of the program
  std::string dir;         // the job directory
  bool of_slurm = false;

  std::optional<PlanSheet> plan;      // none: it could not be read
  std::string checkpoint;             // as --dl-checkpoint takes it
  std::vector<record::Event> events;  // of learners, too
  int attempt = 0, restarts = 0;      // the newest attempt; 0: none has begun
  int64_t step = -1, saved_step = -1;
  std::string rate, left, expected_end, scaling;
  std::string use_now;  // of a job that runs; else what events say counts

  std::vector<LearnerLine> learners;    // of the newest attempt
  std::vector<plot::Chart> curves;      // what the training reported
  std::vector<plot::Chart> use_curves;  // what was measured of it
  std::vector<LastLines> last_lines;    // of learners that failed; else of learner 0
  std::vector<std::string> not_known;   // what could not be read or was left out, and why: a sentence each
};

}  // namespace dl::report
