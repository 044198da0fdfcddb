// SPDX-License-Identifier: Apache-2.0
// Keeps the lease on the checkpoint directory for the whole run: renews it on a thread of its own, since a file system
// may take its time, and tells when another job has taken the directory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/result.h"
#include "launcher/supervise/blocking_calls.h"
#include "launcher/supervise/lease.h"

namespace dl::supervise {

class LeaseKeeper {
 public:
  // lost: called after each renewal that finds the lease with another job.
  LeaseKeeper(uv_loop_t* loop, std::function<void()> lost) : calls_(loop), lost_(std::move(lost)) {}

  // As Lease::acquire().
  Status acquire(const std::string& dir, const std::string& owner, const std::string& job_id, int64_t now_ms);
  // For learners; "" if there is none.
  const std::string& token() const { return token_; }
  // To be called about each second; now_ms: of a monotonic clock that runs on while the job is suspended.
  void tick(int64_t now_ms);
  // Releases the lease. If it is being renewed at this moment, that is done first, on the other thread.
  void release();
  bool idle() const { return calls_.idle(); }

 private:
  BlockingCalls calls_;
  std::function<void()> lost_;
  Lease lease_;  // used by another thread while renewing_
  std::string token_;
  bool held_ = false, renewing_ = false;
  int64_t renewed_ms_ = 0;
};

}  // namespace dl::supervise
