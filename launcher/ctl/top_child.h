// SPDX-License-Identifier: Apache-2.0
// A process of its own that looks at jobs, again and again: whatever Slurm or a file server let it wait for, keys are
// answered and the terminal is drawn meanwhile.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::ctl {

class LookChild {
 public:
  // Looks once. `told`: the text of the last tell(), empty before the first. Returns a text without newlines.
  using Look = std::function<std::string(const std::string& told)>;

  // Forks. The child looks each two seconds, and not for more than a tenth of its time, but at once after each tell();
  // it ends with this object, or with this process. To be called before anything else is started that a fork would
  // copy: threads, signal handlers. Errors: those of socketpair() and fork().
  static Result<LookChild> start(const Look& look);
  LookChild(LookChild&&) noexcept = default;
  LookChild& operator=(LookChild&&) = delete;
  ~LookChild();

  int fd() const { return fd_.get(); }  // can be read when an answer may be there
  // The newest whole answer that has arrived since the last call; empty if there is none. kIo: the child has ended, or
  // has sent more than 256 MiB.
  Result<std::string> take();
  // The child looks at once, and is told this text from now on.
  void tell(const std::string& text);

 private:
  LookChild() = default;
  UniqueFd fd_;
  pid_t pid_ = -1;
  std::string waiting_;
};

}  // namespace dl::ctl
