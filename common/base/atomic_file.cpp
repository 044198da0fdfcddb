// SPDX-License-Identifier: Apache-2.0
#include "common/base/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "common/base/unique_fd.h"

namespace dl {
namespace {

Status write_new(const std::string& path, const std::string& content, mode_t mode, bool durable) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return errno_error("create " + path, errno);
  DL_TRY(write_all(fd.get(), content, path));
  if (::fchmod(fd.get(), mode) != 0) return errno_error("set the mode of " + path, errno);
  if (durable && ::fsync(fd.get()) != 0) return errno_error("fsync " + path, errno);
  if (fd.close() != 0) return errno_error("close " + path, errno);
  return {};
}

Status put_in_place(const std::string& path, const std::string& content, mode_t mode, bool durable) {
  static std::atomic<unsigned> counter{0};
  std::string temporary = fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter++);
  Status written = write_new(temporary, content, mode, durable);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) written = errno_error("rename to " + path, errno);
  if (!written) {
    ::unlink(temporary.c_str());
  }
  return written;
}

}  // namespace

Status write_all(int fd, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("write " + path, errno);
    data.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status replace_file(const std::string& path, const std::string& content, mode_t mode) {
  return put_in_place(path, content, mode, false);
}

Status write_file_atomically(const std::string& path, const std::string& content, mode_t mode) {
  DL_TRY(put_in_place(path, content, mode, true));
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno_error("open " + folder, errno);
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return errno_error("fsync " + folder, errno);
  return {};
}

Result<std::string> read_small_file(const std::string& path, size_t max_bytes) {
  // Without O_NONBLOCK, open() would hang if somebody had put a FIFO in the file's place.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return errno_error("open " + path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return errno_error("stat " + path, errno);
  if (!S_ISREG(status.st_mode))
    return Error{Errc::kInvalid, path + ": not a regular file, but a folder, a device or the like"};
  std::string content;
  char buffer[16384];
  for (;;) {
    ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("read " + path, errno);
    if (n == 0) return content;
    content.append(buffer, static_cast<size_t>(n));
    if (content.size() > max_bytes)
      return Error{Errc::kInvalid,
                   fmt::format("{}: larger than {} bytes, the most that is read of this file", path, max_bytes)};
  }
}

Status make_directories(const std::string& path, mode_t mode) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at != path.size() && path[at] != '/') continue;
    std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), mode) == 0 || errno == EEXIST) continue;
    int mkdir_errno = errno;
    struct stat status {};
    // mkdir() of an existing parent may fail with an error other than EEXIST (read-only or automounted file systems).
    if (::stat(part.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) continue;
    return errno_error("create folder " + part, mkdir_errno);
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno_error("create folder " + path, errno);
  if (!S_ISDIR(status.st_mode)) return Error{Errc::kInvalid, path + ": exists and is not a folder", ENOTDIR};
  return {};
}

}  // namespace dl
