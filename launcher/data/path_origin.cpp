// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/path_origin.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/parse.h"
#include "launcher/data/digest.h"
#include "launcher/data/fault.h"
#include "launcher/data/file_time.h"
#include "launcher/data/walk.h"

namespace dl::data {
namespace {

constexpr size_t kReadAtOnce = 4 << 20;
constexpr unsigned kLeastStreams = 4, kMostStreams = 16;

}  // namespace

Result<Manifest> PathOrigin::list() {
  DL_TRY_ASSIGN(Tree tree, walk(path_, Odd::kRefuse));
  root_ = tree.root;
  root_fd_ = UniqueFd(::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root_fd_) return source_error(printable(root_, 400), errno);
  return std::move(tree.manifest);
}

std::string PathOrigin::place(const Entry& entry) const {
  return printable(root_ + "/" + entry.path, 400);
}

Status PathOrigin::unchanged(int fd, const Entry& entry) const {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return source_error(place(entry), errno);
  const int64_t mtime_ns = mtime_ns_of(status);
  if (S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) == entry.size && mtime_ns == entry.mtime_ns)
    return {};
  return Error{Errc::kConflict, place(entry) + " was changed since the transfer began"};
}

Result<UniqueFd> PathOrigin::open(const Entry& entry) const {
  UniqueFd fd(::openat(root_fd_.get(), entry.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd && errno == ENOENT) return Error{Errc::kConflict, place(entry) + " was removed since the transfer began"};
  if (!fd) return source_error(place(entry), errno);
  DL_TRY(unchanged(fd.get(), entry));
  return fd;
}

Status PathOrigin::read(const Entry& entry, uint64_t offset, uint64_t count, const Take& take) {
  DL_TRY_ASSIGN(const UniqueFd fd, open(entry));
  thread_local std::vector<char> buffer;
  buffer.resize(std::min<uint64_t>(kReadAtOnce, std::max<uint64_t>(count, 1)));
  if (count >= kReadAtOnce)
    ::posix_fadvise(fd.get(), static_cast<off_t>(offset), static_cast<off_t>(count), POSIX_FADV_SEQUENTIAL);
  while (count > 0) {
    if (stop) return Error{Errc::kBusy, "stopped"};
    const ssize_t n =
        ::pread(fd.get(), buffer.data(), std::min<uint64_t>(buffer.size(), count), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return source_error("read " + place(entry), errno);
    if (n == 0) return Error{Errc::kConflict, place(entry) + " has become shorter since the transfer began"};
    DL_TRY(take({buffer.data(), static_cast<size_t>(n)}));
    offset += static_cast<uint64_t>(n);
    count -= static_cast<uint64_t>(n);
  }
  // Looked at again: what was read is of one state.
  return unchanged(fd.get(), entry);
}

uint64_t PathOrigin::span() const {
  return kChunkBytes;
}
uint64_t PathOrigin::small() const {
  return kChunkBytes;
}
unsigned PathOrigin::streams() const {
  return std::clamp(2 * std::thread::hardware_concurrency(), kLeastStreams, kMostStreams);
}

Status check_readable(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return source_error(printable(path, 400), errno);
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return Error{Errc::kInvalid, printable(path, 400) + " is neither a file nor a folder; allowed: a file or a folder"};
  if (::access(path.c_str(), S_ISDIR(status.st_mode) ? R_OK | X_OK : R_OK) != 0)
    return source_error(printable(path, 400), errno);
  return {};
}

}  // namespace dl::data
