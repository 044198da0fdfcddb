// SPDX-License-Identifier: Apache-2.0
// The directories that this process has open. The lease of a run by dlrun is the run's, and so keeps none of its
// processes from opening the directory twice; the second context would take away what the first is writing, and each
// would restore what the other has saved.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl::ckpt {

class OpenHere {
 public:
  OpenHere() = default;
  OpenHere(const OpenHere&) = delete;
  OpenHere& operator=(const OpenHere&) = delete;
  // Makes it enterable again.
  ~OpenHere();

  // kBusy: this process has it open as this rank. A child of fork() has nothing open.
  Status enter(const std::string& dir, int rank);

 private:
  std::string entered_;
};

}  // namespace dl::ckpt
