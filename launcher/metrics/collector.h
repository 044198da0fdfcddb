// SPDX-License-Identifier: Apache-2.0
// Reads the metrics that one learner reports or prints, and writes them as series (series.h). This runs in a process of
// its own, dl-metrics, which the learner's agent starts: it delays nobody, and its crash affects nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "launcher/metrics/event_files.h"
#include "launcher/metrics/line_file.h"
#include "launcher/metrics/log_patterns.h"
#include "launcher/metrics/progress_view.h"
#include "launcher/metrics/series_writer.h"
#include "launcher/metrics/usual_lines.h"

namespace dl::metrics {

// What dl-metrics is told on its command line.
struct CollectorOptions {
  std::string series;    // the file that it writes
  std::string log;       // the learner's log
  std::string values;    // the file of records (emetrics.h) to which the learner itself reports; may be empty
  std::string emetrics;  // another one, where FfDL's programs write theirs; may be empty
  std::string progress;  // path of the progress page; may be empty
  int64_t batch = 0;     // samples of a train step; 0: unknown
  // Expressions that find metrics in the log (log_patterns.h), and folders of event files ("events:DIR").
  std::vector<std::string> patterns{};
  std::string events{};  // a folder of event files that is looked for without being asked; may be empty
  int64_t since_ms = 0;  // when the learner was started; 0: unknown
};

class Collector {
 public:
  explicit Collector(const CollectorOptions& options) : options_(options), rates_(options.batch) {}
  Status open();
  // Reads what is there; true if more may be there at once.
  bool look(int64_t now_ms);
  // The learner has ended: reads the rest, until `deadline_ms` (awake_ms()) at most.
  void finish(int64_t now_ms, int64_t deadline_ms);
  // True as long as the learner has not announced the train step that it began with; the caller then looks again soon.
  bool waits_for_begin() const { return !writer_.has_begin(); }

 private:
  void add(std::vector<Found>* found);
  // Adds values from the log, except those of names that the learner reports itself.
  void add_from_log(std::vector<Found>* found);
  void take_line(std::string_view line, std::vector<Found>* found);
  void take_record(const std::string& path, std::string_view line);
  bool read_log(std::vector<std::string>* lines);
  void take_log(const std::vector<std::string>& lines);
  bool read_records();
  bool read_events(bool last);
  void add_events(const EventLook& look);
  // This name is not taken from the log.
  void tell(std::string_view group, std::string_view name);
  void look_at_page(bool last);
  void flush();

  CollectorOptions options_;
  SeriesWriter writer_;
  ProgressView progress_;
  PageView page_;
  Rates rates_;
  LineFile log_;
  struct Records {
    std::string path;
    const char* position;  // its name in the series
    LineFile file;
  };
  std::vector<Records> records_;
  std::vector<EventFiles> events_;
  std::set<std::string> told_;  // names that the learner reports itself
  LogPatterns patterns_;
  UsualLines usual_;
  int64_t now_ms_ = 0;
};

}  // namespace dl::metrics
