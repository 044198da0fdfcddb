// SPDX-License-Identifier: Apache-2.0
// The lease: at most one job at a time writes into a checkpoint directory.
//
// LEASE is created whole by link(2), which never replaces a file. A process that finds the holder gone claims the right
// to replace *that* lease by creating .lease-taken-TOKEN (again by link: only one succeeds), checks that LEASE still
// has that token, renames its claim over LEASE, and checks once more. Ages are differences of the file system's own
// timestamps, so clocks that differ between hosts do no harm. A holder whose lease was taken over finds out at its next
// renew() or check(), which every commit makes.
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
  // start time of that process in clock ticks since boot, from /proc, because pids are used again
  int64_t pid_started = 0;
  std::string job_id;     // empty outside Slurm
  int64_t restart = 0;    // SLURM_RESTART_COUNT
  int64_t expiry_s = 60;  // seconds: a lease that was not renewed for so long may be taken over
};

// This process as a holder, with a token that nobody has had before; host, process and SLURM_RESTART_COUNT are found
// here. The arguments are the record's members of these names.
LeaseRecord describe_holder(const std::string& owner, const std::string& job_id, int64_t expiry_s);

class Lease {
 public:
  // Errors: kBusy (names the holder and its age), kDenied, kNoSpace, kIo, kNotFound (no such directory).
  static Result<Lease> acquire(Io& io, const std::string& dir, const std::string& owner, const std::string& job_id,
                               int64_t expiry_s);
  // The same for a holder that describe_holder() has described.
  static Result<Lease> acquire(Io& io, const std::string& dir, LeaseRecord self);
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&&) = delete;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();  // releases the lease

  const std::string& token() const { return record_.token; }
  // kBusy if the lease was lost; kInvalid in a child of fork(). kIo and other errors if it was not renewed and may or
  // may not be lost.
  Status renew();
  // Removes LEASE if it still is this lease. May be called twice.
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
// The content of LEASE. kNotFound if there is none; kCorrupt if it is malformed; kIo.
Result<LeaseRecord> read_lease(Io& io, const std::string& dir);

}  // namespace dl::ckpt
