// SPDX-License-Identifier: Apache-2.0
// Reads the logs of several learners of one attempt, in the order of time that the index gives, also while the logs
// grow.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/logs/fold.h"
#include "launcher/logs/line_reader.h"
#include "launcher/logs/log_index.h"

namespace dl::logs {

// The part of a log that is shown: the lines that begin in it.
struct Part {
  int rank = 0;
  uint64_t begin = 0, end = UINT64_MAX;
};

class Merger {
 public:
  struct How {
    bool alike = true;                             // lines that several learners wrote alike are shown once (fold.h)
    std::function<bool(const std::string&)> keep;  // which lines are shown; empty: all
    ShowLine show;
    std::function<bool()> go_on;  // asked now and then; false ends run() early. Empty: it does not end early
  };
  // The index must outlive this.
  Merger(std::string root, int attempt, const LogIndex* index, How how);

  // Adds a learner; each rank once.
  void add(const Part& part);
  bool empty() const { return sources_.empty(); }
  bool has(int rank) const;

  // Shows all whole lines that are there now and were not shown yet. True if there was anything to read. Stops with
  // the first log that cannot be read.
  Result<bool> run();
  // Shows the last lines that have no newline. To be called when the logs grow no more.
  void finish();

 private:
  struct Source {
    LineReader reader;
    uint64_t end = UINT64_MAX;
    bool ended = false;  // nothing is left for now
  };
  // Reads towards what the index says was written before `time_ms`. True if all of that was read.
  Result<bool> read_until(int64_t time_ms, bool* any);
  // The time of the next lines; INT64_MAX: they are younger than the index. Nothing if no line is left.
  std::optional<int64_t> next_time() const;
  void show_all_due();

  std::string root_;
  int attempt_ = 0;
  const LogIndex* index_;
  How how_;
  size_t most_open_;
  std::vector<Source> sources_;   // sorted by rank
  std::vector<Waiting> waiting_;  // by source
};

}  // namespace dl::logs
