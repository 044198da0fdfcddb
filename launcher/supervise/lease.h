// SPDX-License-Identifier: Apache-2.0
// The lease on the checkpoint directory, held by dlrun for the whole run (checkpoint/include/dlckpt_lease.h).
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

  // Makes the directory if it is missing, and tries to write there. job_id: empty without Slurm. kBusy: the text names
  // the holder; kDenied, kNoSpace, kIo: it names the directory.
  Status acquire(const std::string& dir, const std::string& owner, const std::string& job_id);
  // "" if there is none.
  std::string token() const;
  // To be called each 15 s, from a thread that may block. Returns false only if another job has the lease; after any
  // other error, which may be temporary, true.
  bool renew();
  void release();

 private:
  struct Held;
  std::unique_ptr<Held> held_;
};

}  // namespace dl::supervise
