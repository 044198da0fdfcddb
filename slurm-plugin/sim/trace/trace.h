// SPDX-License-Identifier: Apache-2.0
// A trace: the jobs that were submitted, when, and what they would do. It is read from CSV or from JSON lines; its
// first line shows which. dlsim(1) describes both formats; both have the fields of the table in fields.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm-plugin/policy/cluster_state.h"

namespace dl::sim {

struct TraceJob {
  int64_t id = 0;        // at least 1, unique
  int64_t submit_s = 0;  // seconds after the beginning of the trace
  std::string tenant;
  std::string type;  // GPU type; empty: any
  int gpus = 1;      // GPUs per learner
  int min_learners = 1;
  int max_learners = 1;
  int64_t run_s = 1;  // duration with max_learners; with fewer it is longer in proportion, but for `serial`
  // The part of the work that more learners do not speed up (Amdahl): n learners are worth n / (1 + serial x (n - 1)).
  double serial = 0;    // 0 to 1; 0: in proportion
  int64_t limit_s = 0;  // the user's time limit, on which backfill relies; 0: run_s
  Tier tier = Tier::kAuto;
  policy::Placement placement = policy::Placement::kPack;
  int64_t checkpoint_s = 0;  // time from one checkpoint to the next; 0: there are none, and the job cannot be paused
  int64_t restart_s = 60;    // time from a pause until the job trains again; see policy::Job::restart_s
  int64_t waited_s = -1;     // the real wait until its first start; -1: not known
};

struct Trace {
  std::vector<TraceJob> jobs;  // sorted by time of submission, then by id

  // The tenants' names, each once, sorted.
  std::vector<std::string> tenants() const;
  std::vector<std::string> types() const;
  int64_t last_submit_s() const { return jobs.empty() ? 0 : jobs.back().submit_s; }
};

enum class TraceFormat { kCsv, kJsonLines };

// One field of a job: a column of CSV, a key of JSON. To add one, add a row in fields.cpp and a line in dlsim(1).
struct TraceField {
  std::string_view name;
  bool required;
  bool number;  // JSON writes it without quotes
  // kInvalid "'x' ...; allowed: ...". `text` is the field of CSV, or the JSON value as text.
  Status (*parse)(std::string_view text, TraceJob* job);
  std::string (*print)(const TraceJob& job);  // parse() reads the result back; empty: the field is not given
};
const std::vector<TraceField>& trace_fields();

// kInvalid "NAME:LINE: FIELD: ..." for the first bad line. `text` may end without a newline. Blank lines and lines that
// begin with # are skipped.
Result<Trace> parse_trace(std::string_view text, const std::string& name);
// The path "-" means standard input. At most 2 GiB are read.
Result<Trace> read_trace(const std::string& path);

// Writes the trace piece by piece to `out`; returns the first error of `out`.
Status print_trace(const Trace& trace, TraceFormat format, const std::function<Status(std::string_view)>& out);

}  // namespace dl::sim
