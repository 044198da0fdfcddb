// SPDX-License-Identifier: Apache-2.0
// The list of a job's runs that are active now ("the book"): which GPUs and CPUs each has, and whether a stop was asked
// for. A small file in /dev/shm on the node of the batch script, changed under a lock. Without it, a run behaves as the
// only one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"
#include "launcher/runs/shares.h"

namespace dl::runs {

// Identifies a process; a later one with the same process id differs in `started`.
struct ProcessId {
  pid_t pid = 0;
  int64_t started = 0;  // start time in clock ticks since boot (/proc/PID/stat)
};
bool operator==(const ProcessId& a, const ProcessId& b);
// process_of(): started is 0 if there is no such process, and for a zombie. is_alive(): false for started 0.
ProcessId process_of(pid_t pid);
bool is_alive(const ProcessId& process);

struct BookedRun {
  ProcessId guard;  // the run lives as long as this process
  int number = 1;
  std::string dir, checkpoint;  // absolute; checkpoint may be empty
  bool arrived = false;         // ready to be requeued
  bool hold = false;            // if arrived: the job shall be held in the queue
  std::string excluded;         // if arrived: nodes the job must not get again
  std::vector<NodeShare> shares;
};

// A stop that one run asks of all others.
struct BookedStop {
  std::string cause;        // stop_cause_key() in supervise/notice.h
  std::string who;          // text for people
  int64_t deadline_ms = 0;  // Unix time; 0: none
};

struct JobBook {
  int start = 0;  // how often Slurm had requeued the job
  std::vector<BookedRun> runs;
  std::optional<BookedStop> stop;
  ProcessId putting_back;  // guard of the run that asks Slurm now
  bool back = false;       // Slurm has requeued the job
  std::string refused;     // Slurm's error text, if it refused to
};

std::string format_book(const JobBook& book);
// Returns an empty book if `text` is not one.
JobBook parse_book(const std::string& text);

// Removes runs that have died, and everything from an earlier start of the job. Returns true if anything changed. In a
// book of a later start that has living runs, only the dead runs are removed.
bool tidy(int start, const std::function<bool(const ProcessId&)>& alive, JobBook* book);

class BookFile {
 public:
  BookFile() = default;
  // number: SLURM_JOB_ID; empty: no book.
  explicit BookFile(const std::string& number);
  enum class Outcome {
    kDone,
    kNoBook,      // it cannot be opened, or belongs to a later start of the job: `change` was not called
    kBusy,        // another run held the lock all the time: `change` was not called
    kNotWritten,  // `change` was called, but the book could not be written
  };
  // Locks the book, waiting for up to `patience`, calls tidy(), then `change`, and writes the book if either returned
  // true. A book without runs is removed.
  Outcome change(int start, std::chrono::milliseconds patience, const std::function<bool(JobBook*)>& change);
  // True if any run has changed the book since the last call.
  bool has_changed();
  // Makes the next has_changed() return true.
  void forget_seen() { seen_ = {}; }

 private:
  UniqueFd lock(std::chrono::milliseconds patience, bool* busy);
  bool write(const std::string& text) const;

  std::string path_;
  std::pair<ino_t, int64_t> seen_;
};

}  // namespace dl::runs
