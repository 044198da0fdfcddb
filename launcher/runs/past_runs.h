// SPDX-License-Identifier: Apache-2.0
// What the job directories of a job tell of its runs. They lie on a shared file system, and their events may be many:
// so they are read without the lock of the book, and under it only looked at for whether they are still the same.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "launcher/runs/choose_run.h"
#include "launcher/runs/job_book.h"

namespace dl::runs {

class PastRuns {
 public:
  // first: the directory of run 1. first_alone: no other one counts.
  PastRuns(std::string first, bool first_alone) : first_(std::move(first)), first_alone_(first_alone) {}

  // Reads the events of those that have changed.
  void read();
  // Whether what was read is still what is there, but for runs that are at work, of which no event counts.
  bool is_current(const JobBook& book, const ProcessId& own) const;
  // By rising number. A run makes its directory some time after it was booked: those that are booked count without one.
  std::vector<PastRun> with(const JobBook& book, const ProcessId& own) const;

 private:
  // An event log only grows.
  struct Mark {
    ino_t file = 0;
    off_t size = 0;
    bool operator==(const Mark& other) const { return file == other.file && size == other.size; }
  };
  struct Known {
    Mark mark;
    std::vector<record::Event> events;
  };
  std::map<int, Mark> marks() const;
  bool at_work(int number, const JobBook& book, const ProcessId& own) const;

  std::string first_;
  bool first_alone_;
  std::map<int, Known> known_;
};

}  // namespace dl::runs
