// SPDX-License-Identifier: Apache-2.0
// The learners' log files of one attempt, read from their ends and as they grow.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/record/job_dir.h"

namespace dl::ctl {

// Numbers of the attempts that have a folder, rising; none if there is none yet.
std::vector<int> list_attempts(const record::JobDir& dir);
// Ranks that have a log in this attempt, rising.
std::vector<int> list_learner_logs(const record::JobDir& dir, int attempt);
// "logs/attempt-1/learner-0.log"
std::string learner_log(int attempt, int rank);

// One growing file. Gives whole lines; what stands after the last line break is kept until more comes, or end().
class LogTail {
 public:
  // last_lines < 0: from the beginning, else from so many lines before the present end.
  // `relative` to the job directory `root`, as record::open_below() takes it.
  static Result<LogTail> open(const std::string& root, const std::string& relative, int last_lines);

  // Appends what is new, up to 1 MiB, to *lines. True if there was anything.
  Result<bool> read(std::vector<std::string>* lines);
  // The unfinished last line, if any; empties it.
  std::string take_rest();

 private:
  UniqueFd fd_;
  std::string rest_;
};

}  // namespace dl::ctl
