// SPDX-License-Identifier: Apache-2.0
// events.jsonl, the history of a job: append-only, one JSON object a line, over all its attempts, requeues included.
//
//   {"time_ms":1789000000000,"attempt":1,"state":"PROCESSING","reason":"all learners run"}
//   {"time_ms":...,"attempt":1,"learner":2,"state":"FAILED","reason":"killed by signal 9","code":"C201","exit":137}
//
// Lines with "learner" are about one learner, the others about the job. Unknown members are for later versions and
// are ignored. Written by dlrun alone, and by dl-requeue when it is gone, one write() a line, so that a reader sees
// whole lines or, after a crash, one torn last line, which the next append starts anew after.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/record/job_state.h"
#include "launcher/record/run_memory.h"

namespace dl::record {

struct Event {
  int64_t time_ms = 0;  // since the epoch; 0: now (filled by append)
  int attempt = 0;      // 1-based; 0 = before the first start
  JobState state = JobState::kPending;
  std::string reason;           // one sentence without a full stop, or empty
  std::optional<int> learner;   // rank; none: the whole job
  std::optional<int64_t> step;  // train step: of the save for a stop, else the newest known
  std::string code;             // FfDL's error code ("C201": yours, "S...": ours), or empty
  std::optional<int> restart;   // count of restarts in the allocation so far
  std::optional<int> exit;      // exit status as a shell shows it
  std::string host;             // where the learner runs, or empty
  std::string failure;          // class of a failure ("gpu-memory"), or empty
  std::string signature;        // the same for the same failure in another attempt (failure_class.h), or empty
  bool preempted = false;       // Slurm gave the job a grace time and took its nodes
  // Of an end after which Slurm starts the job once more for nothing (supervise/once_more.h): the count of Slurm's
  // restarts that this start will have, and the command that has ended.
  std::optional<int> once_more;
  std::string command;
  std::optional<RunMemory> memory;  // where it has changed
  // Of the beginning of an attempt, and of a completion that no signal had come before (launcher/runs):
  std::string run;           // by what the run is known again, or empty
  std::optional<int> start;  // how often Slurm had put the job back
  bool passed = false;       // it had completed in an earlier start, and this one ran nothing
};

// Without the newline. Text is made valid UTF-8 and cut to 2000 bytes.
std::string format_event(const Event& event);
// kInvalid for anything that is not such an object, or is longer than 64 KiB.
Result<Event> parse_event(const std::string& line);

// Append handle. One process; not thread-safe.
class EventLog {
 public:
  static Result<EventLog> open(const std::string& path);
  // Appends one line. Final states and PENDING are fsynced before it returns.
  Status append(Event event);

 private:
  UniqueFd fd_;
};

// For who puts a job back into the queue while no dlrun keeps its record: appends PENDING, or HALTED if it is held
// there, to the events at `path`, under the number of the newest attempt.
Status record_put_back(const std::string& path, bool hold, const std::string& reason, const std::string& code);

struct EventHistory {
  std::vector<Event> events;  // in the file's order
  int skipped_lines = 0;      // torn or foreign lines, which were passed over
};
// All events; a missing file gives none. At most 64 MiB are read (the newest).
Result<EventHistory> read_events(const std::string& path);
// The same of an open file; at most so many bytes, the newest.
Result<EventHistory> read_events(int fd, int64_t most_bytes);

// What a start of the job needs to know of the earlier ones. Pure.
struct JobSummary {
  int attempts = 0;               // number of the last attempt
  std::optional<JobState> state;  // the job's newest state
  int64_t state_since_ms = 0;     // when it came to be in this state, in the newest attempt
  std::string reason;
  int64_t newest_step = -1;               // highest train step known to be saved, over all attempts; -1 = none
  std::optional<int64_t> first_start_ms;  // when the first attempt was deployed
  std::optional<int> once_more;           // Event::once_more of the newest event about the job
};
JobSummary summarise(const std::vector<Event>& events);

// How often training was interrupted without a warning, over the attempts before the newest. Pure.
struct Interruptions {
  double running_s = 0;     // in PROCESSING
  int64_t unannounced = 0;  // attempts that failed, or that ended without a word (dlrun itself was lost)
};
Interruptions count_interruptions(const std::vector<Event>& events);

}  // namespace dl::record
