// SPDX-License-Identifier: Apache-2.0
// Reads the learners' log files of one attempt: their last lines, and what is appended later.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/record/job_dir.h"

namespace dl::ctl {

// The numbers of the attempts that have a log folder, ascending; may be empty.
std::vector<int> list_attempts(const record::JobDir& dir);
// The ranks that have a log in this attempt, ascending.
std::vector<int> list_learner_logs(const record::JobDir& dir, int attempt);
// "logs/attempt-1/learner-0.log"
std::string learner_log(int attempt, int rank);

// One growing file. Gives whole lines; an unfinished last line is kept until the rest of it comes, or take_rest().
class LogTail {
 public:
  // last_lines < 0: reads from the beginning; else from that many lines before the present end.
  // `relative` to the job directory `root`, as record::open_below() takes it.
  static Result<LogTail> open(const std::string& root, const std::string& relative, int last_lines);

  // Appends new whole lines to *lines; reads at most 1 MiB. True if there was anything to read.
  Result<bool> read(std::vector<std::string>* lines);
  // The unfinished last line, if any; empties it.
  std::string take_rest();

 private:
  UniqueFd fd_;
  std::string rest_;
};

}  // namespace dl::ctl
