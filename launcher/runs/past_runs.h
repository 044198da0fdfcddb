// SPDX-License-Identifier: Apache-2.0
// Reads the events of all job directories of a job. Since they are on a shared file system and may be long, they are
// read without the lock of the book; under the lock it is only checked that they have not changed.
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
  // first: the directory of run 1. first_alone: ignore all other directories.
  PastRuns(std::string first, bool first_alone) : first_(std::move(first)), first_alone_(first_alone) {}

  // Reads the event logs that have changed since the last call.
  void read();
  // True if no event log has changed since read(). Those of active runs are ignored: their events are not used.
  bool is_current(const JobBook& book, const ProcessId& own) const;
  // The runs by ascending number. A run that is in the book counts even if it has not made its directory yet.
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
