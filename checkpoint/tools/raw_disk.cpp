// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/raw_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "checkpoint/read/parallel.h"
#include "checkpoint/store/direct_file.h"
#include "common/base/unique_fd.h"

namespace dl::ckpt::tool {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Result<UniqueFd> open_direct(const std::string& path, int flags, RawTime* time) {
  UniqueFd fd(::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, 0600));
  if (!fd && errno == EINVAL) {
    time->direct = false;
    fd.reset(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  }
  if (!fd) return errno_error("open " + path, errno);
  return fd;
}

}  // namespace

Result<RawTime> raw_write(const std::string& path, const unsigned char* data, uint64_t size, size_t depth) {
  RawTime time;
  const auto begin = Clock::now();
  DL_TRY_ASSIGN(const UniqueFd fd, open_direct(path, O_WRONLY | O_CREAT | O_TRUNC, &time));
  size = size / kRawChunk * kRawChunk;
  if (::posix_fallocate(fd.get(), 0, static_cast<off_t>(size)) != 0)
    return errno_error("reserve space for " + path, ENOSPC);
  DL_TRY(for_each_parallel(size / kRawChunk, depth, [&](size_t index, size_t) -> Status {
    const uint64_t at = index * kRawChunk;
    const ssize_t n = ::pwrite(fd.get(), data + at, kRawChunk, static_cast<off_t>(at));
    if (n != static_cast<ssize_t>(kRawChunk)) return errno_error("write " + path, n < 0 ? errno : EIO);
    return {};
  }));
  if (::fsync(fd.get()) != 0) return errno_error("fsync " + path, errno);
  time.seconds = since(begin);
  return time;
}

Result<RawTime> raw_read(const std::string& path, uint64_t size, size_t depth) {
  RawTime time;
  size = size / kRawChunk * kRawChunk;
  std::vector<AlignedBuffer> buffers(depth);
  for (AlignedBuffer& buffer : buffers) std::memset(buffer.at_least(kRawChunk), 1, kRawChunk);
  const auto begin = Clock::now();
  DL_TRY_ASSIGN(const UniqueFd fd, open_direct(path, O_RDONLY, &time));
  DL_TRY(for_each_parallel(size / kRawChunk, depth, [&](size_t index, size_t thread) -> Status {
    const ssize_t n =
        ::pread(fd.get(), buffers[thread].at_least(kRawChunk), kRawChunk, static_cast<off_t>(index * kRawChunk));
    if (n != static_cast<ssize_t>(kRawChunk)) return errno_error("read " + path, n < 0 ? errno : EIO);
    return {};
  }));
  time.seconds = since(begin);
  return time;
}

double memcpy_seconds(unsigned char* to, const unsigned char* from, uint64_t size) {
  const auto begin = Clock::now();
  std::memcpy(to, from, size);
  // The result is used here, so that the compiler does not remove the copy.
  asm volatile("" : : "r"(to) : "memory");
  return since(begin);
}

void drop_cache(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(directory.c_str()), ::closedir);
  if (!dir) return;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (entry->d_name[0] == '.') continue;
    const UniqueFd fd(::openat(::dirfd(dir.get()), entry->d_name, O_RDONLY | O_CLOEXEC));
    if (fd) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

}  // namespace dl::ckpt::tool
