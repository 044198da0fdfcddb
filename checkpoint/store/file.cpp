// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/store/file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace dl::ckpt {
namespace {

// The most that one system call transfers (Linux allows 2 GiB); small enough that a kill need not wait long.
constexpr size_t kMaxTransfer = size_t{64} << 20;

}  // namespace

Error io_error(const char* doing, const std::string& path, int64_t negative_errno) {
  return errno_error(std::string(doing) + " " + path, static_cast<int>(-negative_errno));
}

Status reserve_space(Io& io, int fd, const std::string& path, uint64_t size) {
  if (size == 0) return {};  // fallocate(2) would refuse
  int rc = 0;
  do {
    rc = io.fallocate(fd, size);
  } while (rc == -EINTR);
  if (rc == -EOPNOTSUPP || rc == -ENOSYS) {
    do {
      rc = io.ftruncate(fd, size);
    } while (rc == -EINTR);
  }
  if (rc < 0) return io_error("reserve space for", path, rc);
  return {};
}

Result<File> File::open(Io& io, const std::string& path, int flags) {
  int fd = 0;
  do {
    fd = io.open(path, flags);
  } while (fd == -EINTR);
  if (fd == -ENXIO || fd == -EISDIR)
    return Error{Errc::kCorrupt,
                 path + " is not a regular file, but " + (fd == -ENXIO ? "a FIFO, socket or device" : "a directory")};
  if (fd < 0) return io_error("open", path, fd);
  return File(io, path, fd);
}

File::File(File&& other) noexcept : io_(other.io_), path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

File::~File() {
  if (fd_ >= 0) io_->close(fd_);
}

Result<size_t> File::read_some(void* buffer, size_t size, uint64_t at) {
  for (;;) {
    const int64_t n = io_->pread(fd_, buffer, std::min(size, kMaxTransfer), at);
    if (n == -EINTR) continue;
    if (n < 0) return io_error("read", path_, n);
    return static_cast<size_t>(n);
  }
}

Status File::read_all(void* buffer, size_t size, uint64_t at) {
  auto* to = static_cast<char*>(buffer);
  while (size > 0) {
    DL_TRY_ASSIGN(const size_t n, read_some(to, size, at));
    if (n == 0) return Error{Errc::kCorrupt, "read " + path_ + ": it ends at byte " + std::to_string(at)};
    to += n;
    at += n;
    size -= n;
  }
  return {};
}

Status File::write_all(const void* buffer, size_t size, uint64_t at) {
  const auto* from = static_cast<const char*>(buffer);
  while (size > 0) {
    const int64_t n = io_->pwrite(fd_, from, std::min(size, kMaxTransfer), at);
    if (n == -EINTR) continue;
    if (n < 0) return io_error("write", path_, n);
    if (n == 0) return Error{Errc::kIo, "write " + path_ + ": nothing was written", EIO};
    from += n;
    at += static_cast<uint64_t>(n);
    size -= static_cast<size_t>(n);
  }
  return {};
}

Status File::reserve(uint64_t size) {
  return reserve_space(*io_, fd_, path_, size);
}

Status File::sync_and_close() {
  const int rc = io_->fsync(fd_);
  if (rc < 0) {
    io_->close(std::exchange(fd_, -1));
    return io_error("fsync", path_, rc);
  }
  return close();
}

Status File::close() {
  const int rc = io_->close(std::exchange(fd_, -1));
  // Linux has closed the descriptor even after EINTR, and data that matters was synced before.
  if (rc < 0 && rc != -EINTR) return io_error("close", path_, rc);
  return {};
}

Result<std::string> read_small_file(Io& io, const std::string& path, uint64_t max_bytes) {
  DL_TRY_ASSIGN(File file, File::open(io, path, O_RDONLY));
  constexpr size_t kSmall = size_t{1} << 20;
  const Error too_large{Errc::kCorrupt, "read " + path + ": it is too large"};
  std::string text;
  // One byte more than is allowed shows that there is too much.
  const size_t step = static_cast<size_t>(std::min(uint64_t{1} << 16, max_bytes)) + 1;
  for (;;) {
    const size_t have = text.size();
    // A file that anybody has made very long is refused before memory is spent on what may be read of it.
    if (have >= kSmall && have <= max_bytes) {
      char beyond = 0;
      DL_TRY_ASSIGN(const size_t n, file.read_some(&beyond, 1, max_bytes));
      if (n > 0) return too_large;
    }
    const size_t grow = std::max(step, have);
    text.resize(have + grow);
    size_t got = 0;
    while (got < grow) {
      DL_TRY_ASSIGN(const size_t n, file.read_some(text.data() + have + got, grow - got, have + got));
      if (n == 0) break;
      got += n;
    }
    text.resize(have + got);
    if (text.size() > max_bytes) return too_large;
    if (got < grow) return text;
  }
}

Status write_new_file(Io& io, const std::string& path, std::string_view text, bool durable) {
  auto file = File::open(io, path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) return std::move(file).error();
  auto written = file->write_all(text.data(), text.size(), 0);
  if (written) written = durable ? file->sync_and_close() : file->close();
  if (!written) io.unlink(path);
  return written;
}

Status replace_file(Io& io, const std::string& path, const std::string& temporary, std::string_view text,
                    bool durable) {
  auto written = write_new_file(io, temporary, text, durable);
  if (!written && written.error().code == Errc::kExists) {
    io.unlink(temporary);  // a killed process may have left it
    written = write_new_file(io, temporary, text, durable);
  }
  if (!written) return written;
  const int rc = io.rename(temporary, path);
  if (rc < 0) {
    io.unlink(temporary);
    return io_error("rename to", path, rc);
  }
  return {};
}

Result<std::vector<std::string>> list_directory(Io& io, const std::string& path) {
  std::vector<std::string> names;
  int rc = 0;
  do {
    rc = io.list(path, &names);
  } while (rc == -EINTR);
  if (rc < 0) return io_error("list", path, rc);
  return names;
}

Status remove_tree(Io& io, const std::string& path, int depth) {
  // What a link leads to is somebody else's: only the link is removed.
  Io::Info info;
  if (io.stat_link(path, &info) == 0 && !info.directory) {
    const int rc = io.unlink(path);
    return rc < 0 && rc != -ENOENT ? Status(io_error("remove", path, rc)) : Status();
  }
  auto names = list_directory(io, path);
  if (!names) {
    if (names.error().code == Errc::kNotFound) return {};
    return std::move(names).error();
  }
  for (const std::string& name : *names) {
    const std::string child = path + "/" + name;
    int rc = io.unlink(child);
    if ((rc == -EISDIR || rc == -EPERM) && depth > 1) {
      DL_TRY(remove_tree(io, child, depth - 1));
      rc = 0;
    }
    if (rc < 0 && rc != -ENOENT) return io_error("remove", child, rc);
  }
  const int rc = io.rmdir(path);
  if (rc < 0 && rc != -ENOENT) return io_error("remove", path, rc);
  return {};
}

}  // namespace dl::ckpt
