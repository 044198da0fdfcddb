// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs/index_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/atomic_file.h"

namespace dl::logs {
namespace {

// All of it at this place, or an error.
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

IndexWriter::IndexWriter(std::string path, int64_t base_ms, uint64_t most_bytes)
    : path_(std::move(path)), base_ms_(base_ms), newest_ms_(base_ms), most_bytes_(most_bytes) {}

Status IndexWriter::open() {
  UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) return errno_error("create " + path_, errno);
  const std::string header = index_header(base_ms_);
  DL_TRY(write_at(fd.get(), path_, header, 0));
  size_ = header.size();
  fd_ = std::move(fd);
  return {};
}

Status IndexWriter::append(const std::vector<Mark>& marks) {
  if (marks.empty()) return {};
  if (!fd_) DL_TRY(open());
  std::string text;
  int64_t newest = newest_ms_;
  for (Mark mark : marks) {
    newest = mark.time_ms = std::max(newest, mark.time_ms);
    text += index_entry(base_ms_, mark);
  }
  Status written = write_at(fd_.get(), path_, text, size_);
  if (!written) {
    // A part of an entry would put all later ones out of place; the next call writes here again if this fails, too.
    if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) return written;
    return written;
  }
  newest_ms_ = newest;
  size_ += text.size();
  return size_ > most_bytes_ ? thin() : Status{};
}

Status IndexWriter::thin() {
  std::string text(size_, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::pread(fd_.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return errno_error("read " + path_, n < 0 ? errno : EIO);
    done += static_cast<size_t>(n);
  }
  text = thin_index(text);
  DL_TRY(replace_file(path_, text));
  UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return errno_error("open " + path_, errno);
  fd_ = std::move(fd);
  size_ = text.size();
  return {};
}

}  // namespace dl::logs
