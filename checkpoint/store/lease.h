// SPDX-License-Identifier: Apache-2.0
// The lease: at most one job at a time writes into a checkpoint directory.
//
// LEASE is made whole by link(2), which never replaces. Whoever finds the holder gone claims the right to replace
// *that* lease by making .lease-taken-TOKEN (again link: one winner), looks again that LEASE still has that token,
// renames its claim over LEASE, and looks once more. Ages are differences of the file system's own timestamps, so
// clocks that differ between hosts do no harm. A holder that was taken over finds out at its next renew() or check(),
// which a commit makes.
#pragma once

#include <string>

#include "checkpoint/store/io.h"
#include "common/base/result.h"

namespace dl::ckpt {

// The holder of the lease, as the file LEASE describes it.
struct LeaseRecord {
  std::string owner;  // "job 12", for people
  std::string token;  // 32 hex digits, random
  std::string host, boot_id, pid_namespace;
  int64_t pid = 0;
  int64_t pid_started = 0;  // start time of that process in clock ticks since boot, from /proc: pids are used again
  std::string job_id;       // empty outside Slurm
  int64_t restart = 0;      // SLURM_RESTART_COUNT
  int64_t expiry_s = 60;    // a lease that was not renewed for so long may be taken over
};

class Lease {
 public:
  // Errors: kBusy (names holder and age), kDenied, kNoSpace, kIo, kNotFound (no such directory).
  static Result<Lease> acquire(Io& io, const std::string& dir, const std::string& owner, const std::string& job_id,
                               int64_t expiry_s);
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&&) = delete;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();  // releases

  const std::string& token() const { return record_.token; }
  // kBusy if the lease was lost; kIo and other errors if it was not renewed and it is not known whether it was lost.
  Status renew();
  // Removes LEASE if this lease still holds it. May be called twice.
  void release();

 private:
  Lease(Io& io, std::string dir, LeaseRecord record);
  Io* io_;
  std::string dir_;
  LeaseRecord record_;
  bool held_ = true;
};

// kBusy unless LEASE has this token.
Status check_lease(Io& io, const std::string& dir, const std::string& token);
// What LEASE says; kNotFound if there is none.
Result<LeaseRecord> read_lease(Io& io, const std::string& dir);

}  // namespace dl::ckpt
