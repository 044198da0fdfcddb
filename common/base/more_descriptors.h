// SPDX-License-Identifier: Apache-2.0
// Raises the limit of open files to the hard limit while this object lives: dlrun has a connection for each of its
// agents, and the store of torch.distributed that it hosts has several for each learner. No learner may be started
// meanwhile: it would inherit the higher limit, and programs that use select() fail with descriptors above 1,024.
#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace dl {

class MoreDescriptors {
 public:
  MoreDescriptors() {
    if (::getrlimit(RLIMIT_NOFILE, &before_) != 0) return;
    rlimit more = before_;
    more.rlim_cur = std::min<rlim_t>(before_.rlim_max, kMost);
    changed_ = more.rlim_cur > before_.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &more) == 0;
  }
  ~MoreDescriptors() {
    if (changed_) ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  MoreDescriptors(const MoreDescriptors&) = delete;
  MoreDescriptors& operator=(const MoreDescriptors&) = delete;

 private:
  static constexpr rlim_t kMost = 1 << 20;
  rlimit before_{};
  bool changed_ = false;
};

}  // namespace dl
