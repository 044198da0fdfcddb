// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/store/direct_output.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "checkpoint/store/direct_file.h"  // for kDirectAlignment

namespace dl::ckpt {
namespace {

constexpr size_t kMaxTransfer = size_t{64} << 20;  // so that a kill need not wait long

template <typename Call>
int retried(Call&& call) {
  int rc = 0;
  do {
    rc = call();
  } while (rc == -EINTR);
  return rc;
}

}  // namespace

Result<std::unique_ptr<DirectOutput>> DirectOutput::open(Io& io, const std::string& path, int flags) {
  int fd = retried([&] { return io.open(path, flags | O_DIRECT); });
  bool direct = true;
  if (fd == -EINVAL) {  // the file system does not support O_DIRECT
    direct = false;
    // Some file systems have created the file all the same, so O_EXCL must not be used again.
    fd = retried([&] { return io.open(path, flags & ~O_EXCL); });
  }
  if (fd < 0) return io_error("open", path, fd);
  return std::unique_ptr<DirectOutput>(new DirectOutput(io, path, fd, direct));
}

DirectOutput::DirectOutput(Io& io, std::string path, int fd, bool direct)
    : io_(io), path_(std::move(path)), direct_fd_(fd) {
  if (!direct) buffered_fd_ = fd;
}

DirectOutput::~DirectOutput() {
  ignore(close(), "only where writing it failed before");
}

Status DirectOutput::write(const void* data, size_t size, uint64_t at) {
  const auto* from = static_cast<const char*>(data);
  while (size > 0) {
    const int buffered = buffered_fd_.load(std::memory_order_acquire);
    const int fd = buffered >= 0 ? buffered : direct_fd_.load(std::memory_order_acquire);
    const int64_t n = io_.pwrite(fd, from, std::min(size, kMaxTransfer), at);
    if (n == -EINTR) continue;
    if (n == -EINVAL && buffered < 0) {
      DL_TRY(fall_back());
      continue;
    }
    if (n < 0) return io_error("write", path_, n);
    if (n == 0) return Error{Errc::kIo, "write " + path_ + ": nothing was written", EIO};
    // After a short transfer the next one must start at an aligned offset.
    auto done = static_cast<size_t>(n);
    if (buffered < 0 && done < size) done -= done % kDirectAlignment;
    if (done == 0) {
      DL_TRY(fall_back());
      continue;
    }
    from += done;
    at += done;
    size -= done;
  }
  return {};
}

// Some file systems accept O_DIRECT and then refuse the writes; these writes then go through the page cache.
Status DirectOutput::fall_back() {
  const std::lock_guard<std::mutex> lock(fall_back_mutex_);
  if (buffered_fd_.load(std::memory_order_relaxed) >= 0) return {};
  const int fd = retried([&] { return io_.open(path_, O_WRONLY); });
  if (fd < 0) return io_error("open", path_, fd);
  buffered_fd_.store(fd, std::memory_order_release);
  return {};
}

Status DirectOutput::reserve(uint64_t size) {
  return reserve_space(io_, direct_fd_, path_, size);
}

Status DirectOutput::set_size(uint64_t size) {
  const int rc = retried([&] { return io_.ftruncate(direct_fd_, size); });
  if (rc < 0) return io_error("set the length of", path_, rc);
  return {};
}

Status DirectOutput::sync() {
  // One descriptor is enough, because fsync() concerns the file.
  const int rc = io_.fsync(direct_fd_);
  if (rc < 0) return io_error("fsync", path_, rc);
  return {};
}

Status DirectOutput::close() {
  const int direct = direct_fd_.exchange(-1);
  const int buffered = buffered_fd_.exchange(-1);
  int rc = 0;
  if (buffered >= 0 && buffered != direct) rc = io_.close(buffered);
  if (direct >= 0) {
    const int other = io_.close(direct);
    if (rc == 0) rc = other;
  }
  // Linux has closed the descriptor even after EINTR, and the data was synced before.
  if (rc < 0 && rc != -EINTR) return io_error("close", path_, rc);
  return {};
}

}  // namespace dl::ckpt
