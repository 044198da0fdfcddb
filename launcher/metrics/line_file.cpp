// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace dl::metrics {

Result<UniqueFd> open_regular(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return errno_error("open " + path, errno);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return errno_error(path, errno);
  if (!S_ISREG(status.st_mode)) return Error{Errc::kInvalid, path + " is no regular file"};
  return fd;
}

LineFile::LineFile(std::string path, uint64_t position, size_t longest, bool bars)
    : path_(std::move(path)), longest_(longest), bars_(bars), read_(position), done_(position) {}

Result<bool> LineFile::read(size_t most, const Line& line) {
  if (!fd_) {
    auto fd = open_regular(path_);
    if (!fd && fd.error().code == Errc::kNotFound) return false;
    if (!fd) return std::move(fd).error();
    fd_ = *std::move(fd);
  }
  struct stat status = {};
  if (::fstat(fd_.get(), &status) != 0) return errno_error(path_, errno);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size < read_) {  // it was cut: what follows is read from here
    read_ = done_ = size;
    rest_.clear();
    skipping_ = false;
  }
  if (size == read_) return false;
  std::string data(std::min<uint64_t>(most, size - read_), '\0');
  ssize_t n = 0;
  do n = ::pread(fd_.get(), data.data(), data.size(), static_cast<off_t>(read_));
  while (n < 0 && errno == EINTR);
  if (n < 0) return errno_error("read " + path_, errno);
  data.resize(static_cast<size_t>(n));
  read_ += data.size();
  feed(data, line);
  return n > 0;
}

void LineFile::feed(std::string_view data, const Line& line) {
  while (!data.empty()) {
    const size_t end = bars_ ? data.find_first_of("\n\r") : data.find('\n');
    const std::string_view part = data.substr(0, end);
    if (end == std::string_view::npos) {
      if (!skipping_) rest_ += part.substr(0, longest_ - std::min(longest_, rest_.size()));
      if (rest_.size() >= longest_ && !std::exchange(skipping_, true)) line(rest_);
      // What was given is not given again by a collector that begins anew.
      if (skipping_) rest_.clear(), done_ = read_;
      return;
    }
    if (std::exchange(skipping_, false)) {
      // its beginning was given before
    } else if (rest_.empty()) {
      if (!part.empty()) line(part.substr(0, longest_));
    } else {
      rest_ += part.substr(0, longest_ - std::min(longest_, rest_.size()));
      line(rest_);
      rest_.clear();
    }
    data.remove_prefix(end + 1);
    done_ = read_ - data.size();
  }
}

void LineFile::finish(const Line& line) {
  if (!rest_.empty()) line(rest_);
  rest_.clear();
  done_ = read_;
}

}  // namespace dl::metrics
