// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/part_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "launcher/data/fault.h"
#include "launcher/data/write_all.h"

namespace dl::data {
namespace {

constexpr size_t kMostJournal = 64 << 20;
constexpr size_t kVerifyBytes = 4 << 20;

size_t chunks_of(uint64_t size) {
  return static_cast<size_t>(size / kChunkBytes + (size % kChunkBytes == 0 ? 0 : 1));
}

}  // namespace

std::string boot_mark() {
  auto text = read_small_file("/proc/sys/kernel/random/boot_id", 64);
  return text ? std::string(trim(*text)) : "unknown";
}

std::string journal_head(uint64_t size, std::string_view boot) {
  return fmt::format("slurm-dl part 1 {} {}\n", size, boot);
}

std::string journal_line(size_t chunk, uint64_t hash) {
  return fmt::format("{} {:x}\n", chunk, hash);
}

Journal parse_journal(std::string_view text, uint64_t size, std::string_view boot) {
  Journal journal;
  const std::string head = journal_head(size, boot);
  const size_t any_boot = head.size() - boot.size() - 1;
  const size_t first_line = text.find('\n');
  if (first_line == std::string_view::npos || text.substr(0, any_boot) != std::string_view(head).substr(0, any_boot))
    return journal;
  journal.known = true;
  journal.same_boot = text.substr(0, head.size()) == head;
  text.remove_prefix(first_line + 1);
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    size_t chunk = 0;
    uint64_t hash = 0;
    const auto first = std::from_chars(line.data(), line.data() + line.size(), chunk);
    if (first.ec != std::errc() || first.ptr == line.data() + line.size() || chunk >= chunks_of(size)) continue;
    const auto second = std::from_chars(first.ptr + 1, line.data() + line.size(), hash, 16);
    if (second.ec == std::errc() && second.ptr == line.data() + line.size()) journal.chunks.emplace_back(chunk, hash);
  }
  return journal;
}

PartFile::PartFile(std::string path, uint64_t size) : path_(std::move(path)), size_(size) {
  const size_t count = chunks_of(size);
  have_.resize(count, false);
  hashes_.resize(count, 0);
}

PartFile::PartFile(PartFile&& other) noexcept
    : path_(std::move(other.path_)),
      size_(other.size_),
      fd_(std::move(other.fd_)),
      journal_(std::move(other.journal_)),
      have_(std::move(other.have_)),
      hashes_(std::move(other.hashes_)) {}

Result<PartFile> PartFile::open(const std::string& path, uint64_t size) {
  PartFile part(path, size);
  part.fd_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!part.fd_) return local_error("create " + path, errno);
  part.journal_ =
      UniqueFd(::open((path + ".journal").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!part.journal_) return local_error("create " + path + ".journal", errno);
  struct stat status {};
  if (::fstat(part.fd_.get(), &status) != 0) return local_error(path, errno);
  if (static_cast<uint64_t>(status.st_size) != size) {
    // Without room for all of it nothing is begun. Not every file system can reserve it.
    if (::ftruncate(part.fd_.get(), 0) != 0 || ::ftruncate(part.fd_.get(), static_cast<off_t>(size)) != 0)
      return local_error("create " + path, errno);
    if (::fallocate(part.fd_.get(), 0, 0, static_cast<off_t>(size)) != 0 && errno != EOPNOTSUPP && errno != EINTR)
      return local_error(fmt::format("reserve {} for {}", format_bytes(size), path), errno);
    DL_TRY(part.new_journal());
  } else {
    DL_TRY(part.read_journal());
  }
  return part;
}

Status PartFile::new_journal() {
  if (::ftruncate(journal_.get(), 0) != 0) return local_error("write " + path_ + ".journal", errno);
  return write_all(journal_.get(), journal_head(size_, boot_mark()), path_ + ".journal");
}

Status PartFile::read_journal() {
  auto text = read_small_file(path_ + ".journal", kMostJournal);
  if (!text) return local_error(path_ + ".journal", text.error().sys_errno);
  const std::string boot = boot_mark();
  const Journal journal = parse_journal(*text, size_, boot);
  if (!journal.known) return new_journal();
  std::vector<char> buffer;
  for (const auto& [chunk, hash] : journal.chunks) {
    if (!journal.same_boot && !verified(chunk, hash, &buffer)) continue;
    have_[chunk] = true;
    hashes_[chunk] = hash;
  }
  // Written anew, with this boot's mark, and without what was not believed or torn.
  std::string kept = journal_head(size_, boot);
  for (size_t chunk = 0; chunk < have_.size(); ++chunk)
    if (have_[chunk]) kept += journal_line(chunk, hashes_[chunk]);
  if (kept == *text) return {};
  if (auto written = replace_file(path_ + ".journal", kept, 0600); !written)
    return local_error("write " + path_ + ".journal", written.error().sys_errno);
  journal_ = UniqueFd(::open((path_ + ".journal").c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  return journal_ ? Status() : Status(local_error(path_ + ".journal", errno));
}

bool PartFile::verified(size_t chunk, uint64_t hash, std::vector<char>* buffer) const {
  buffer->resize(kVerifyBytes);
  ChunkHash found;
  uint64_t at = 0;
  while (at < size_of(chunk)) {
    const ssize_t n = ::pread(fd_.get(), buffer->data(), std::min<uint64_t>(buffer->size(), size_of(chunk) - at),
                              static_cast<off_t>(offset_of(chunk) + at));
    if (n <= 0) return false;
    found.add({buffer->data(), static_cast<size_t>(n)});
    at += static_cast<uint64_t>(n);
  }
  return found.take() == hash;
}

uint64_t PartFile::size_of(size_t chunk) const {
  return std::min(kChunkBytes, size_ - offset_of(chunk));
}

uint64_t PartFile::bytes_there() const {
  uint64_t bytes = 0;
  for (size_t chunk = 0; chunk < have_.size(); ++chunk)
    if (have_[chunk]) bytes += size_of(chunk);
  return bytes;
}

Status PartFile::write(uint64_t offset, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::pwrite(fd_.get(), data.data(), data.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return local_error("write " + path_, errno);
    offset += static_cast<uint64_t>(n);
    data.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status PartFile::finished(size_t chunk, uint64_t hash) {
  ::sync_file_range(fd_.get(), static_cast<off_t>(offset_of(chunk)), static_cast<off_t>(size_of(chunk)),
                    SYNC_FILE_RANGE_WRITE);
  const std::lock_guard<std::mutex> lock(mutex_);
  have_[chunk] = true;
  hashes_[chunk] = hash;
  return write_all(journal_.get(), journal_line(chunk, hash), path_ + ".journal");
}

bool PartFile::complete() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::all_of(have_.begin(), have_.end(), [](bool there) { return there; });
}

std::string PartFile::sum() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fast_sum(hashes_);
}

Status PartFile::begin_again() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::fill(have_.begin(), have_.end(), false);
  return new_journal();
}

Status PartFile::move_to(const std::string& place, int64_t mtime_ns, bool executable) {
  if (::fchmod(fd_.get(), executable ? 0555 : 0444) != 0) return local_error("set the mode of " + path_, errno);
  DL_TRY(set_time(fd_.get(), mtime_ns, path_));
  if (::rename(path_.c_str(), place.c_str()) != 0) return local_error("rename to " + place, errno);
  ::unlink((path_ + ".journal").c_str());
  return {};
}

}  // namespace dl::data
