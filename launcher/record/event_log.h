// SPDX-License-Identifier: Apache-2.0
// events.jsonl, the history of a job over all its attempts and requeues: append-only, one JSON object a line.
//
//   {"time_ms":1789000000000,"attempt":1,"state":"PROCESSING","reason":"all learners run"}
//   {"time_ms":...,"attempt":1,"learner":2,"state":"FAILED","reason":"killed by signal 9","code":"C201","exit":137}
//
// Lines with "learner" are about one learner, the others about the job. Unknown members (of later versions) are
// ignored. Written only by dlrun, and by dl-requeue when dlrun is gone, with one write() a line: a reader sees whole
// lines, except that a crash may leave an incomplete last line. The next append begins a new line after it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/record/job_state.h"
#include "launcher/record/run_memory.h"

namespace dl::record {

// What the learners have used in all attempts of the dlrun that writes it.
struct UsedInAll {
  std::string text;                       // one sentence for people
  std::map<std::string, double> numbers;  // by name (dl-job-directory(5)), without those that were not measured
};

struct Event {
  int64_t time_ms = 0;  // since the epoch; 0: now (filled by append)
  int attempt = 0;      // 1-based; 0 = before the first start
  JobState state = JobState::kPending;
  std::string reason;           // one sentence without a full stop; may be empty
  std::optional<int> learner;   // rank; none: the whole job
  std::optional<int64_t> step;  // newest train step known to be saved
  std::string code;             // FfDL's error code ("C201": yours, "S...": ours), or empty
  std::optional<int> restart;   // count of restarts in the allocation so far
  std::optional<int> exit;      // exit status as a shell shows it
  std::string host;             // where the learner runs, or empty
  std::string failure;          // class of a failure ("gpu-memory"), or empty
  std::string signature;        // equal if the same failure occurs again (failure_class.h); may be empty
  bool preempted = false;       // the job had been preempted with a grace time
  // Set on an end after which Slurm starts the job once more although nothing is left to do (supervise/once_more.h):
  // Slurm's restart count in that start, and the command that has ended.
  std::optional<int> once_more;
  std::string command;
  std::optional<RunMemory> memory;  // present if it has changed
  // Set at the beginning of an attempt, and on a completion before which no signal had come (launcher/runs):
  std::string run;           // RunIdentity::text(), by which the run is recognised; or empty
  std::optional<int> start;  // how often Slurm had requeued the job
  bool passed = false;       // completed in an earlier start of the job; this start ran nothing
  // Set where a dlrun ends: COMPLETED, FAILED, HALTED, PENDING; and where a learner ends: what it has used in the
  // attempt, without a text.
  std::optional<UsedInAll> use;
};

// Without the newline. Text is made valid UTF-8 and cut to 2000 bytes.
std::string format_event(const Event& event);
// kInvalid for anything that is not such an object, or is longer than 64 KiB.
Result<Event> parse_event(const std::string& line);

// Appends to events.jsonl. Used by one process, and by one of its threads.
class EventLog {
 public:
  // Creates the file if it is missing; ends a last line that a crash has cut off. Errors of the file system.
  static Result<EventLog> open(const std::string& path);
  // Appends one line. Final states and PENDING are fsynced before it returns.
  Status append(Event event);

 private:
  UniqueFd fd_;
};

// For programs that requeue a job while no dlrun keeps its record: appends PENDING, or HALTED if the job is held, to
// the events at `path`, with the number of the newest attempt.
Status record_put_back(const std::string& path, bool hold, const std::string& reason, const std::string& code);

struct EventHistory {
  std::vector<Event> events;  // in the file's order
  int skipped_lines = 0;      // incomplete or foreign lines that were skipped
};
// All events; a missing file gives none. At most 64 MiB are read (the newest).
Result<EventHistory> read_events(const std::string& path);
// The same from an open file; reads at most its last `most_bytes` bytes.
Result<EventHistory> read_events(int fd, int64_t most_bytes);

// What a start of the job needs to know of the earlier starts.
struct JobSummary {
  int attempts = 0;               // number of the last attempt
  std::optional<JobState> state;  // the job's newest state
  int64_t state_since_ms = 0;     // since when, within the newest attempt
  std::string reason;
  int64_t newest_step = -1;               // highest train step known to be saved, over all attempts; -1 = none
  std::optional<int64_t> first_start_ms;  // when the first attempt was deployed
  std::optional<int> once_more;           // Event::once_more of the newest event about the job
  std::optional<int> start;               // Event::start of the newest attempt that has it
};
JobSummary summarise(const std::vector<Event>& events);

// How often training was interrupted without a warning, over all attempts except the newest.
struct Interruptions {
  double running_s = 0;     // in PROCESSING
  int64_t unannounced = 0;  // attempts that failed, or have no end (dlrun itself was lost)
};
Interruptions count_interruptions(const std::vector<Event>& events);

}  // namespace dl::record
