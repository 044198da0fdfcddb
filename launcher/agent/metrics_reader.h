// SPDX-License-Identifier: Apache-2.0
// The process that reads the learner's metrics (launcher/metrics, dl-metrics): a program of its own, so that the agent
// need not load its libraries, and survives its crash. It ends by itself when the agent's end of a pipe is closed, also
// when the agent dies.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::agent {

class MetricsReader {
 public:
  MetricsReader() = default;
  MetricsReader(const MetricsReader&) = delete;
  MetricsReader& operator=(const MetricsReader&) = delete;
  // Waits for its end if close() was called, but not if leave() was.
  ~MetricsReader();

  // words: NAME=VALUE, as dl-metrics takes them.
  Status start(std::vector<std::string> words);
  pid_t pid() const { return pid_; }  // 0: there is none
  void close() { alive_.reset(); }    // the learner has ended: the process reads the rest, and ends
  void leave() { pid_ = 0; }          // the destructor does not wait for its end
  // To be called with each process that the caller has reaped; all but this one are ignored.
  void reaped(pid_t pid);

 private:
  pid_t pid_ = 0;
  UniqueFd alive_;
};

}  // namespace dl::agent
