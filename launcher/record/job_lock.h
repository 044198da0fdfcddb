// SPDX-License-Identifier: Apache-2.0
// Ensures one dlrun at a time in a job directory, by a lock (flock) on a file in it, which the kernel releases when
// dlrun dies.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::record {

// Who holds the lock, as the file says.
struct DirHolder {
  std::string job_id;
  int slurm_restarts = -1;  // how often Slurm had requeued the job; -1 without Slurm
  std::string node;         // host name
  pid_t pid = 0;
};
// The holder that this process is, on this node.
DirHolder this_process(const std::string& job_id, int slurm_restarts);
std::string format_holder(const DirHolder& holder);
// kInvalid for anything else.
Result<DirHolder> parse_holder(const std::string& text);

// True if `self` may go on although `holder` has the lock: `holder` is an earlier start of the same job. Slurm has
// ended that before it starts the job again, so its node has died and the file server has not noticed yet. Pure.
bool is_superseded(const DirHolder& holder, const DirHolder& self);

class JobLock {
 public:
  // Takes the lock of the directory `root`, which is made if it is missing. Waits for up to `patience` for another
  // holder, which may be about to end; then kBusy, which names the holder. If the file system has no locks, or the file
  // cannot be written, it succeeds without a lock: the next use of the directory reports the fault.
  static Result<JobLock> take(const std::string& root, const DirHolder& self, std::chrono::milliseconds patience);

  // False if take() succeeded without a lock.
  bool held() const { return static_cast<bool>(fd_); }

 private:
  UniqueFd fd_;
};

}  // namespace dl::record
