// SPDX-License-Identifier: Apache-2.0
// Runs dl-data (launcher/data), which fetches the job's data to this node before its learners start, and then holds it:
// as long as this process lives, nothing of it is evicted from the node's cache. dl-data ends by itself when the
// agent's end of a pipe is closed, also when the agent is killed, so that no lease outlives its job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/protocol/control_protocol.h"

namespace dl::agent {

class DataFetcher {
 public:
  DataFetcher() = default;
  DataFetcher(const DataFetcher&) = delete;
  DataFetcher& operator=(const DataFetcher&) = delete;
  // Ends dl-data, and waits for its end for 2 s.
  ~DataFetcher();

  // One that was adopted ends before.
  Status start(const protocol::Fetch& fetch);
  pid_t pid() const { return pid_; }  // 0: there is none
  // Whether start() was called in this process, and what it has started has not ended.
  bool has_started() const { return pid_ > 0 && !adopted_; }
  // What has changed since the last call; nothing if nothing has, or if all is there. now_ms: any monotonic clock.
  std::optional<protocol::Fetched> look(int64_t now_ms);
  // To be called with each process that the caller has reaped, with its status as a shell shows it; all but this one
  // are ignored.
  std::optional<protocol::Fetched> reaped(pid_t pid, int exit);

  // This process is about to begin anew by exec: where all is there, dl-data goes on holding it, as a child of this
  // process, and the environment names it. Else it ends with this object.
  void keep();
  // The same process has begun anew: takes back what keep() has left, if anything. The environment does not name it any
  // more, so that no learner inherits that.
  void adopt();

 private:
  void end();
  void read_errors();
  bool read_progress();

  pid_t pid_ = 0;
  UniqueFd alive_, errors_;
  std::string progress_, words_;  // words_: the end of what it has written to standard error
  protocol::Fetched told_;
  bool adopted_ = false;
  int64_t looked_ms_ = 0;
};

// The last line of a text that is not empty, without the program's name, made printable. Pure.
std::string last_line(const std::string& text);

}  // namespace dl::agent
