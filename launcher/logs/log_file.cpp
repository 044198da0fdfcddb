// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs/log_file.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>

#include "launcher/logs/frames.h"
#include "launcher/record/open_below.h"

namespace dl::logs {
namespace {

Error damaged(const std::string& name) {
  return Error{Errc::kCorrupt, name + " is damaged: it is not what dlrun writes when it compresses a log"};
}

Status read_at(int fd, const std::string& name, uint64_t at, size_t size, std::string* to) {
  to->resize(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(fd, to->data() + done, size - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("read " + name, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  to->resize(done);
  return {};
}

}  // namespace

Result<LogFile> LogFile::open(const std::string& root, const std::string& relative) {
  LogFile file;
  file.name_ = root + "/" + relative;
  auto fd = record::open_below(root, relative, record::Kind::kFile);
  if (!fd && fd.error().code == Errc::kNotFound) {
    auto packed = record::open_below(root, relative + kPackedSuffix, record::Kind::kFile);
    if (!packed) return std::move(fd).error();
    fd = std::move(packed);
    file.compressed_ = true;
    file.name_ += kPackedSuffix;
  }
  if (!fd) return std::move(fd).error();
  file.fd_ = std::move(*fd);
  struct stat status = {};
  if (::fstat(file.fd_.get(), &status) != 0) return errno_error(file.name_, errno);
  file.changed_ms_ = status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000;
  if (file.compressed_) DL_TRY(file.open_frames());
  return file;
}

Status LogFile::open_frames() {
  struct stat status = {};
  if (::fstat(fd_.get(), &status) != 0) return errno_error(name_, errno);
  const auto size = static_cast<uint64_t>(status.st_size);
  std::string text;
  if (size < kSeekFooter) return damaged(name_);
  DL_TRY(read_at(fd_.get(), name_, size - kSeekFooter, kSeekFooter, &text));
  const auto table = seek_table_bytes(text, size);
  if (!table) return damaged(name_);
  DL_TRY(read_at(fd_.get(), name_, size - *table, *table, &text));
  const auto sizes = parse_seek_table(text);
  if (!sizes) return damaged(name_);
  uint64_t at = 0;
  for (const FrameSize& each : *sizes) {
    if (each.bytes > kFrameBytes || each.packed > ZSTD_compressBound(kFrameBytes)) return damaged(name_);
    frames_.push_back({at, unpacked_, each.packed, each.bytes});
    at += each.packed;
    unpacked_ += each.bytes;
  }
  if (at != size - *table) return damaged(name_);
  return {};
}

Result<uint64_t> LogFile::size() const {
  if (compressed_) return unpacked_;
  struct stat status = {};
  if (::fstat(fd_.get(), &status) != 0) return errno_error(name_, errno);
  return static_cast<uint64_t>(status.st_size);
}

Status LogFile::read(uint64_t* offset, size_t most, std::string* to) {
  to->clear();
  if (compressed_) return read_frames(offset, most, to);
  for (;;) {
    // A hole begins and ends at multiples of kFrameBytes, so that what is read here is in a hole as a whole or not.
    const size_t left = kFrameBytes - *offset % kFrameBytes;
    DL_TRY(read_at(fd_.get(), name_, *offset, std::min(most, left), to));
    if (to->empty() || to->find_first_not_of('\0') != std::string::npos) return {};
    // Zeros: a hole, unless the learner wrote them. Where the file system knows no holes, they are taken for data.
    const off_t data = ::lseek(fd_.get(), static_cast<off_t>(*offset), SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
      to->clear();
      return {};
    }
    const uint64_t next = data < 0 ? 0 : static_cast<uint64_t>(data) / kFrameBytes * kFrameBytes;
    if (next <= *offset) return {};
    *offset = next;
  }
}

Status LogFile::read_frames(uint64_t* offset, size_t most, std::string* to) {
  while (*offset < unpacked_) {
    const auto after = std::upper_bound(frames_.begin(), frames_.end(), *offset,
                                        [](uint64_t at, const Frame& frame) { return at < frame.offset; });
    const auto index = static_cast<size_t>(after - frames_.begin()) - 1;
    const Frame& frame = frames_[index];
    if (held_ != index) {
      std::string packed;
      DL_TRY(read_at(fd_.get(), name_, frame.at, frame.packed, &packed));
      frame_.resize(frame.bytes);
      const size_t got = ZSTD_decompress(frame_.data(), frame_.size(), packed.data(), packed.size());
      if (ZSTD_isError(got) != 0 || got != frame.bytes) return damaged(name_);
      held_ = index;
    }
    // A frame of zeros alone is a place that was dropped.
    if (frame_.find_first_not_of('\0') == std::string::npos) {
      *offset = frame.offset + frame.bytes;
      continue;
    }
    *to = frame_.substr(*offset - frame.offset, most);
    return {};
  }
  return {};
}

}  // namespace dl::logs
