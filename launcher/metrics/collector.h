// SPDX-License-Identifier: Apache-2.0
// Reads what one learner tells of its metrics, and writes it as series (series.h). It is a process of its own,
// dl-metrics, which the learner's agent starts beside it: it stands in nobody's way, and its end costs nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/metrics/line_file.h"
#include "launcher/metrics/progress_view.h"
#include "launcher/metrics/series_writer.h"
#include "launcher/metrics/usual_lines.h"

namespace dl::metrics {

// What dl-metrics is told on its command line.
struct CollectorOptions {
  std::string series;    // the file that it writes
  std::string log;       // the learner's log
  std::string progress;  // path of the progress page; may be empty
  int64_t batch = 0;     // samples of a train step; 0: unknown
};

class Collector {
 public:
  explicit Collector(const CollectorOptions& options) : options_(options), rates_(options.batch) {}
  Status open();
  // Reads what is there; true if more may be there at once.
  bool look(int64_t now_ms);
  // The learner has ended: reads the rest, until `deadline_ms` (awake_ms()) at most.
  void finish(int64_t now_ms, int64_t deadline_ms);
  // Whether the learner has not told yet with which train step it began; then a look is due soon.
  bool waits_for_begin() const { return !writer_.has_begin(); }

 private:
  void add(std::vector<Found>* found);
  bool read_log();
  void look_at_page(bool last);
  void flush();

  CollectorOptions options_;
  SeriesWriter writer_;
  ProgressView progress_;
  PageView page_;
  Rates rates_;
  LineFile log_;
  UsualLines usual_;
  int64_t now_ms_ = 0;
};

}  // namespace dl::metrics
