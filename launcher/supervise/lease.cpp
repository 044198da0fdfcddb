// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/lease.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>

#include "checkpoint/include/dlckpt_lease.h"
#include "common/base/atomic_file.h"
#include "common/base/unique_fd.h"

namespace dl::supervise {
namespace {

// Creates the directory if it is missing, and a file in it, which it removes again. Without this check the first save
// would fail, hours later.
Status check_writable(const std::string& dir) {
  DL_TRY(make_directories(dir));
  std::string probe = fmt::format("{}/.tmp-dlrun-{}", dir, ::getpid());
  UniqueFd fd(::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return errno_error("write into " + dir, errno);
  ssize_t n = ::write(fd.get(), "x", 1);
  int failure = n == 1 ? 0 : errno;
  if (failure == 0 && ::fsync(fd.get()) != 0) failure = errno;
  ::unlink(probe.c_str());
  if (failure != 0) return errno_error("write into " + dir, failure);
  return {};
}

}  // namespace

struct Lease::Held {
  dlckpt_lease* lease = nullptr;
};

Lease::Lease() : held_(std::make_unique<Held>()) {}
Lease::~Lease() {
  release();
}

Status Lease::acquire(const std::string& dir, const std::string& owner, const std::string& job_id) {
  DL_TRY(check_writable(dir));
  int rc = dlckpt_lease_acquire(dir.c_str(), owner.c_str(), job_id.empty() ? nullptr : job_id.c_str(), &held_->lease);
  if (rc == DLCKPT_OK) return {};
  Errc code = Errc::kIo;
  if (rc == DLCKPT_E_BUSY) code = Errc::kBusy;
  if (rc == DLCKPT_E_DENIED) code = Errc::kDenied;
  if (rc == DLCKPT_E_NO_SPACE) code = Errc::kNoSpace;
  return Error{code, dlckpt_open_error()};
}

std::string Lease::token() const {
  return held_->lease != nullptr ? dlckpt_lease_token(held_->lease) : "";
}

bool Lease::renew() {
  // Only DLCKPT_E_BUSY means that the lease was lost. Other errors may pass: the file system may answer again in time.
  return held_->lease == nullptr || dlckpt_lease_renew(held_->lease) != DLCKPT_E_BUSY;
}

void Lease::release() {
  if (held_->lease != nullptr) dlckpt_lease_release(held_->lease);
  held_->lease = nullptr;
}

}  // namespace dl::supervise
