// SPDX-License-Identifier: Apache-2.0
// The PMIx server of this node (launcher/pmix), which the agent of the node's first learner starts for each attempt. It
// ends when the agent's end of a pipe is closed, also when the agent dies; before that, dlrun closes its connection to
// the server.
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
  // Ends the server: waits a second, then kills it. Removes its folder.
  ~PmixServer();

  // Starts the program env::kPmixServer if it is set, and this is the first task of its node (SLURM_LOCALID is 0) and
  // one of env::kPmixRanks; else does nothing. Fails if its folder cannot be made or the program not be started.
  Status start(int rank);
  pid_t pid() const { return pid_; }  // 0: there is none
  // To be called with each process that the caller has reaped; all but the server are ignored.
  void reaped(pid_t pid);

  // Removes the folders that killed agents of this user have left on this node.
  static void remove_left();

 private:
  Status make_folder();
  pid_t pid_ = 0;
  UniqueFd alive_;        // write end of a pipe; the server's standard input is the other end
  std::string folder_;    // of the server's files
  UniqueFd folder_lock_;  // held as long as the folder is used
};

}  // namespace dl::agent
