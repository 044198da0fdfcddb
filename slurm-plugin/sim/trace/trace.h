// SPDX-License-Identifier: Apache-2.0
// A trace: the jobs that were submitted, when, and what they would do. It is read from CSV or from JSON lines; the
// first line tells which. dlsim(1) describes both formats; both have the fields of the table in fields.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm-plugin/policy/cluster_state.h"

namespace dl::sim {

struct TraceJob {
  int64_t id = 0;        // from 1, each once
  int64_t submit_s = 0;  // after the beginning of the trace
  std::string tenant;
  std::string type;  // of the GPUs; empty: any
  int gpus = 1;      // per learner
  int min_learners = 1;
  int max_learners = 1;
  int64_t run_s = 1;    // with max_learners; with fewer it takes longer in proportion
  int64_t limit_s = 0;  // the time limit that the user stated, on which backfill relies; 0: run_s
  Tier tier = Tier::kAuto;
  policy::Placement placement = policy::Placement::kPack;
  int64_t checkpoint_s = 0;  // from one checkpoint to the next; 0: none, and it cannot be paused
  int64_t restart_s = 60;    // from a pause until it trains again, as policy::Job::restart_s
  int64_t waited_s = -1;     // how long it really waited for its first start; -1: not known
};

struct Trace {
  std::vector<TraceJob> jobs;  // by time of submission, then by id

  // Names, each once, sorted.
  std::vector<std::string> tenants() const;
  std::vector<std::string> types() const;
  int64_t last_submit_s() const { return jobs.empty() ? 0 : jobs.back().submit_s; }
};

enum class TraceFormat { kCsv, kJsonLines };

// One field of a job: a column of CSV, a key of JSON. To add one: a row in fields.cpp, and a line in dlsim(1).
struct TraceField {
  std::string_view name;
  bool required;
  bool number;  // JSON writes it without quotes
  // kInvalid "'x' ...; allowed: ..."; `text`: the field of CSV, or the value of JSON as text.
  Status (*parse)(std::string_view text, TraceJob* job);
  std::string (*print)(const TraceJob& job);  // parse() reads it back; empty: not given
};
const std::vector<TraceField>& trace_fields();

// kInvalid "NAME:LINE: FIELD: ..." for the first bad line. `text` may end without a newline. Blank lines, and lines
// that begin with #, are skipped.
Result<Trace> parse_trace(std::string_view text, const std::string& name);
// "-" is standard input. At most 2 GiB.
Result<Trace> read_trace(const std::string& path);

// Writes the trace piece by piece to `out`; returns the first error of `out`.
Status print_trace(const Trace& trace, TraceFormat format, const std::function<Status(std::string_view)>& out);

}  // namespace dl::sim
