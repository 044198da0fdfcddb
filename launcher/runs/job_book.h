// SPDX-License-Identifier: Apache-2.0
// Who is at work in a job now: its runs, what they have of its nodes, and the stop that is asked for. A small file in
// memory on the node where the batch script runs, changed under a lock. Where it cannot be had, a run is alone.
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

// A process, told from a later one with the same number.
struct ProcessId {
  pid_t pid = 0;
  int64_t started = 0;  // as in /proc/PID/stat
};
bool operator==(const ProcessId& a, const ProcessId& b);
// started is 0 where /proc does not tell, and for one that has ended and waits for its parent to ask for its status.
ProcessId process_of(pid_t pid);
bool is_alive(const ProcessId& process);

struct BookedRun {
  ProcessId guard;  // the run lives as long as it does
  int number = 1;
  std::string dir, checkpoint;  // absolute; checkpoint may be empty
  bool arrived = false;         // ready to go back into the queue
  bool hold = false;            // arrived: and to be held there
  std::string excluded;         // arrived: nodes that the job shall not get again
  std::vector<NodeShare> shares;
};

// What a run asks all others to stop for.
struct BookedStop {
  std::string cause;        // a name of supervise/supervisor_siblings.cpp's
  std::string who;          // text for people
  int64_t deadline_ms = 0;  // Unix time; 0: none
};

struct JobBook {
  int start = 0;  // how often Slurm had put the job back
  std::vector<BookedRun> runs;
  std::optional<BookedStop> stop;
  ProcessId putting_back;  // of the run that asks Slurm now
  bool back = false;       // Slurm has put the job back
  std::string refused;     // or has refused, with these words
};

std::string format_book(const JobBook& book);
// An empty one for anything else.
JobBook parse_book(const std::string& text);

// Drops runs that have died, and all that an earlier start of the job has left. Returns whether anything changed. A
// book of a later start in which anybody lives is left alone but for the dead.
bool tidy(int start, const std::function<bool(const ProcessId&)>& alive, JobBook* book);

class BookFile {
 public:
  BookFile() = default;
  // `number`: of the job, as Slurm counts.
  explicit BookFile(const std::string& number);
  enum class Outcome {
    kDone,
    kNoBook,      // there is none, or it belongs to a later start of the job: nothing was called
    kBusy,        // another run had the lock all the time: nothing was called
    kNotWritten,  // `change` was called, and the book stays as it was
  };
  // The book under its lock, tidied; written where `change` returns true, removed when nobody is in it. The lock is
  // waited for, for `patience` at most.
  Outcome change(int start, std::chrono::milliseconds patience, const std::function<bool(JobBook*)>& change);
  // Whether it was changed since the last call, by anybody.
  bool has_changed();
  // The next has_changed() says so whatever comes.
  void forget_seen() { seen_ = {}; }

 private:
  UniqueFd lock(std::chrono::milliseconds patience, bool* busy);
  bool write(const std::string& text) const;

  std::string path_;
  std::pair<ino_t, int64_t> seen_;
};

}  // namespace dl::runs
