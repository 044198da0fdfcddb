// SPDX-License-Identifier: Apache-2.0
// The lease on the checkpoint directory, held by dlrun for the whole run (checkpoint/include/dlckpt.h).
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"

namespace dl::supervise {

class Lease {
 public:
  Lease();
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // job_id: empty without Slurm. kBusy names the holder; kDenied, kNoSpace, kIo name the directory.
  Status acquire(const std::string& dir, const std::string& owner, const std::string& job_id);
  // "" if there is none.
  std::string token() const;
  // Each 15 s, on the thread of BlockingCalls. False: lost to another job.
  bool renew();
  void release();

 private:
  struct Held;
  std::unique_ptr<Held> held_;
};

}  // namespace dl::supervise
