// SPDX-License-Identifier: Apache-2.0
// The PMIx server of this node (launcher/pmix), which the agent of the node's first learner starts for each attempt. It
// ends when this one's end of a pipe is closed, however that comes about; dlrun closes its connection before.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::agent {

class PmixServer {
 public:
  PmixServer() = default;
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;
  // Ends it: waits a second, then kills it.
  ~PmixServer();

  // Starts env::kPmixServer, if that is set and this is the first task of its node (SLURM_LOCALID); else does nothing.
  Status start(int rank);
  pid_t pid() const { return pid_; }  // 0: there is none
  // It was found to have ended.
  void reaped(pid_t pid);

  // Removes what killed agents of this user have left on this node.
  static void remove_left();

 private:
  Status make_folder();
  pid_t pid_ = 0;
  UniqueFd alive_;        // of a pipe whose other end is its standard input
  std::string folder_;    // its files; removed here, however it ended
  UniqueFd folder_lock_;  // held as long as they are used
};

}  // namespace dl::agent
