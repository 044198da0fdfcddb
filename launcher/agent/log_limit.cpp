// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/log_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/unique_fd.h"

namespace dl::agent {
namespace {

constexpr size_t kMarkBytes = 128;
constexpr uint64_t kTailWithoutHoles = 4 << 20;

int punch_hole(int fd, off_t at, off_t bytes) {
  return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes);
}

// One line of exactly kMarkBytes.
std::string mark(uint64_t bytes) {
  std::string text = "\ndl-agent: " + std::to_string(bytes) +
                     " bytes of output were dropped here, beyond the limit of a log (log_limit in dl.toml)";
  text.resize(kMarkBytes - 1, ' ');
  return text + "\n";
}

Status write_at(int fd, const std::string& path, std::string_view data, uint64_t at) {
  while (!data.empty()) {
    const ssize_t n = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("write " + path, errno);
    data.remove_prefix(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
  return {};
}

}  // namespace

Cut plan_cut(uint64_t limit, uint64_t size, uint64_t dropped_to) {
  Cut cut;
  cut.head = std::min(kMostHead, limit / 4) / kCutUnit * kCutUnit;
  const uint64_t gone = dropped_to > cut.head ? dropped_to - cut.head : 0;
  if (limit == 0 || cut.head == 0 || size - gone <= limit) return cut;
  const uint64_t tail = (limit - cut.head) / 4 * 3;
  const uint64_t to = (size - tail) / kCutUnit * kCutUnit;
  if (to > std::max(cut.head, dropped_to)) cut.to = to;
  return cut;
}

void LogLimit::begin(std::string path, uint64_t limit, uint64_t size, Punch punch) {
  path_ = std::move(path);
  limit_ = limit == 0 ? 0 : std::max(limit, kLeastLimit);
  size_ = size;
  dropped_to_ = lost_ = 0;
  punch_ = punch != nullptr ? punch : punch_hole;
}

void LogLimit::grew(uint64_t bytes) {
  size_ += bytes;
  if (limit_ == 0) return;
  const Cut cut = plan_cut(limit_, size_, dropped_to_);
  if (cut.to == 0) return;
  // A log that cannot be cut grows on: to lose output would be worse.
  if (!drop(cut)) limit_ = 0;
}

Status LogLimit::drop(const Cut& cut) {
  // Not the descriptor that appends: with O_APPEND Linux writes behind the end, whatever place pwrite() is told.
  const UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return errno_error("open " + path_, errno);
  const uint64_t from = std::max(cut.head, dropped_to_);
  const int rc = punch_(fd.get(), static_cast<off_t>(from), static_cast<off_t>(cut.to - from));
  if (rc != 0 && errno != EOPNOTSUPP && errno != ENOSYS) return errno_error("free a part of " + path_, errno);
  if (rc != 0) return move_tail(fd.get(), cut);
  lost_ += cut.to - from + (dropped_to_ == 0 ? kMarkBytes : 0);
  dropped_to_ = cut.to;
  return write_at(fd.get(), path_, mark(lost_), cut.head - kMarkBytes);
}

// Where the file system has no holes, the newest part moves to behind the first one, and the file becomes shorter.
Status LogLimit::move_tail(int fd, const Cut& cut) {
  const uint64_t kept = std::min(kTailWithoutHoles, size_ - cut.to);
  std::string tail(kept, '\0');
  size_t got = 0;
  while (got < tail.size()) {
    const ssize_t n = ::pread(fd, tail.data() + got, tail.size() - got, static_cast<off_t>(size_ - kept + got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return errno_error("read " + path_, n < 0 ? errno : EIO);
    got += static_cast<size_t>(n);
  }
  lost_ += size_ - kept - cut.head + (lost_ == 0 ? kMarkBytes : 0);
  if (::ftruncate(fd, static_cast<off_t>(cut.head)) != 0) return errno_error("shorten " + path_, errno);
  size_ = cut.head;
  DL_TRY(write_at(fd, path_, mark(lost_), cut.head - kMarkBytes));
  DL_TRY(write_at(fd, path_, tail, cut.head));
  size_ = cut.head + kept;
  return {};
}

}  // namespace dl::agent
