// SPDX-License-Identifier: Apache-2.0
// What was found in one look at the jobs. It travels from the process that looks to the one that draws, as a line of
// JSON. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/plot/chart.h"
#include "launcher/top/row.h"

namespace dl::top {

struct DetailEvent {
  int64_t time_ms = 0;
  int attempt = 0;
  std::string state, reason;
  std::optional<int64_t> step;
};

// A job that is opened. Texts of others are hostile, but for those of the chart, which are printable.
struct Detail {
  std::string id;   // Row::id
  std::string dir;  // its job directory
  std::string checkpoint;
  std::vector<DetailEvent> events;   // of the job, the newest last
  std::optional<plot::Chart> chart;  // of the loss, or what there is instead
  std::string no_chart;              // why there is none
  std::string log_name;              // "learner 0, attempt 2"
  std::vector<std::string> log;      // its last lines, the newest last
};

struct Snapshot {
  int64_t time_ms = 0;   // of the look
  int64_t slurm_ms = 0;  // when Slurm was asked last; 0: it was not
  std::string problem;   // what could not be read, or empty
  std::vector<Row> rows;
  std::optional<Detail> detail;
};

// One line, without its newline. kInvalid for anything that line_of() has not made.
std::string line_of(const Snapshot& snapshot);
Result<Snapshot> snapshot_of(const std::string& line);

Json detail_json(const Detail& detail);
Result<Detail> detail_of(const Json& json);

}  // namespace dl::top
