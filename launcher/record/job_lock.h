// SPDX-License-Identifier: Apache-2.0
// A job directory has one dlrun at a time: it holds a lock on a file in it, which the kernel gives back when it dies.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::record {

// Who holds it; what the file says.
struct DirHolder {
  std::string job_id;
  int slurm_restarts = -1;  // how often Slurm had put the job back; -1 without Slurm
  std::string node;         // host name
  pid_t pid = 0;
};
DirHolder this_process(const std::string& job_id, int slurm_restarts);
std::string format_holder(const DirHolder& holder);
// kInvalid for anything else.
Result<DirHolder> parse_holder(const std::string& text);

// Whether `self` may go on though `holder` has the lock: that is an earlier start of the same job, of which Slurm has
// none left when it starts the next. Its node has died, and the file server does not know that yet. Pure.
bool is_superseded(const DirHolder& holder, const DirHolder& self);

class JobLock {
 public:
  // Takes the lock of the directory `root`, which is made if it is not there; one that is held is waited for, for
  // `patience` at most, since whoever holds it may be dying. kBusy names the holder. Where there are no locks, or the
  // file cannot be written, it is given without: whoever needs the directory next says what is wrong with it.
  static Result<JobLock> take(const std::string& root, const DirHolder& self, std::chrono::milliseconds patience);

  // Whether it really is locked.
  bool held() const { return static_cast<bool>(fd_); }

 private:
  UniqueFd fd_;
};

}  // namespace dl::record
