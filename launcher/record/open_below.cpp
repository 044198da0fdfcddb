// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/open_below.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/parse.h"

namespace dl::record {
namespace {

constexpr int kCommon = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

Error in_the_way(const std::string& path, const char* what) {
  return Error{Errc::kInvalid, fmt::format("{}: {}; a job directory holds files and folders alone", path, what)};
}

Error cannot_open(const std::string& path, int failure) {
  if (failure == ELOOP) return in_the_way(path, "is a link, which is not followed");
  if (failure == ENXIO) return in_the_way(path, "is a socket, or a device that is not there");
  return errno_error("open " + path, failure);
}

}  // namespace

Result<UniqueFd> open_below(const std::string& root, const std::string& relative, Kind kind) {
  UniqueFd at(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!at) return errno_error("open " + root, errno);
  struct stat top {};
  if (::fstat(at.get(), &top) != 0) return errno_error("stat " + root, errno);
  std::string path = root;
  const std::vector<std::string> parts = split(relative, '/');
  if (parts.empty() && kind == Kind::kFile) return in_the_way(root, "is not a regular file");
  for (size_t i = 0; i < parts.size(); ++i) {
    path += "/" + parts[i];
    const bool folder = i + 1 < parts.size() || kind == Kind::kFolder;
    UniqueFd next(::openat(at.get(), parts[i].c_str(), kCommon | O_NOFOLLOW | (folder ? O_DIRECTORY : 0)));
    if (!next) {
      const int failure = errno;
      struct stat link {};
      // With O_DIRECTORY the kernel reports ENOTDIR for a link.
      if (failure == ENOTDIR && ::fstatat(at.get(), parts[i].c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0 &&
          S_ISLNK(link.st_mode))
        return cannot_open(path, ELOOP);
      return cannot_open(path, failure);
    }
    struct stat found {};
    if (::fstat(next.get(), &found) != 0) return errno_error("stat " + path, errno);
    if (!folder && !S_ISREG(found.st_mode)) return in_the_way(path, "is not a regular file");
    if (found.st_uid != top.st_uid)
      return Error{
          Errc::kDenied,
          fmt::format("{}: belongs to another user than {}; allowed: files of that directory's owner", path, root)};
    at = std::move(next);
  }
  return at;
}

Result<std::string> read_below(const std::string& root, const std::string& relative, size_t max_bytes) {
  DL_TRY_ASSIGN(const UniqueFd fd, open_below(root, relative, Kind::kFile));
  std::string content;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("read " + root + "/" + relative, errno);
    if (n == 0) return content;
    content.append(buffer, static_cast<size_t>(n));
    if (content.size() > max_bytes)
      return Error{Errc::kInvalid, fmt::format("{}/{}: larger than {} bytes, the most that is read of this file", root,
                                               relative, max_bytes)};
  }
}

}  // namespace dl::record
