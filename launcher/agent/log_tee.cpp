// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/log_tee.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace dl::agent {
namespace {
// POSIX: poll() reports a pipe as writable when this many bytes fit, and a write of this size is not split.
constexpr size_t kAtomicWrite = 4096;
}  // namespace

Status LogTee::open(const std::string& log_path, int out_fd, std::string prefix, uint64_t log_limit) {
  out_fd_ = out_fd;
  prefix_ = std::move(prefix);
  log_path_ = log_path;
  if (log_path.empty()) return {};
  log_.reset(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log_) return errno_error("open " + log_path, errno);
  struct stat status = {};
  if (::fstat(log_.get(), &status) != 0) return errno_error(log_path, errno);
  limit_.begin(log_path, log_limit, static_cast<uint64_t>(status.st_size));
  return {};
}

void LogTee::to_log(std::string_view data) {
  while (log_ && !data.empty()) {
    const ssize_t n = gap_ > 0 && !mark_gap() ? -1 : ::write(log_.get(), data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      lost_.error = errno_error("write " + log_path_, errno).text;
      lost_.bytes += static_cast<int64_t>(data.size());
      gap_ += static_cast<int64_t>(data.size());
      return;
    }
    data.remove_prefix(static_cast<size_t>(n));
    limit_.grew(static_cast<uint64_t>(n));
  }
}

// Writes into the log how much is missing at this place. False if that cannot be written either.
bool LogTee::mark_gap() {
  const std::string line = "\ndl-agent: " + std::to_string(gap_) + " bytes are missing here: " + lost_.error + "\n";
  const ssize_t n = ::write(log_.get(), line.data(), line.size());
  if (n < 0) return false;
  limit_.grew(static_cast<uint64_t>(n));
  gap_ = 0;
  return true;
}

void LogTee::end_line() {
  pending_ += prefix_;
  pending_ += line_;
  line_.clear();
}

void LogTee::feed(std::string_view data) {
  to_log(data);
  if (out_fd_ < 0) return;
  if (prefix_.empty()) {
    pending_ += data;
    write_pending();
    return;
  }
  while (!data.empty()) {
    size_t end = data.find_first_of("\n\r");
    if (end == std::string_view::npos) {
      line_ += data;
      break;
    }
    if (data[end] == '\r' && end + 1 < data.size() && data[end + 1] == '\n') ++end;
    line_ += data.substr(0, end + 1);
    data.remove_prefix(end + 1);
    end_line();
  }
  if (line_.size() > kLongestLine) {
    line_ += '\n';
    end_line();
  }
  write_pending();
}

void LogTee::write_pending() {
  while (!pending_.empty() && out_fd_ >= 0) {
    pollfd out{out_fd_, POLLOUT, 0};
    if (::poll(&out, 1, 0) <= 0) return;
    if ((out.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {  // the reader is gone; the log remains
      out_fd_ = -1;
      pending_.clear();
      return;
    }
    // Write up to the last whole line that fits, so that lines of several learners on one pipe do not mix.
    size_t size = std::min(pending_.size(), kAtomicWrite);
    if (size == kAtomicWrite) {
      size_t newline = pending_.rfind('\n', size - 1);
      if (newline != std::string::npos) size = newline + 1;
    }
    ssize_t n = ::write(out_fd_, pending_.data(), size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {
      // There may be room again later.
      if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO)
        lost_.output = errno_error("standard output", errno).text;
      else
        out_fd_ = -1;
      pending_.clear();
      return;
    }
    pending_.erase(0, static_cast<size_t>(n));
  }
}

void LogTee::finish(std::chrono::milliseconds limit) {
  if (!line_.empty()) {
    line_ += '\n';
    end_line();
  }
  auto deadline = std::chrono::steady_clock::now() + limit;
  while (!pending_.empty() && out_fd_ >= 0 && std::chrono::steady_clock::now() < deadline) {
    pollfd out{out_fd_, POLLOUT, 0};
    ::poll(&out, 1, 50);
    write_pending();
  }
}

}  // namespace dl::agent
