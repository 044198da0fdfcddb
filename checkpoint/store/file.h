// SPDX-License-Identifier: Apache-2.0
// Files on top of Io: complete transfers, and errors as sentences.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/store/io.h"
#include "common/base/result.h"

namespace dl::ckpt {

// errno_error() for the -errno of Io: "open PATH: No space left on device".
Error io_error(const char* doing, const std::string& path, int64_t negative_errno);

// Reserves [0, size) of an open file now, so that a full disk is noticed before the first byte is written. If the file
// system cannot (NFS before 4.2), only the length is set. kNoSpace, kIo.
Status reserve_space(Io& io, int fd, const std::string& path, uint64_t size);

// An open file. The destructor closes it and ignores errors: writers call sync_and_close().
class File {
 public:
  // `flags` are those of open(2). kCorrupt if the path is no regular file.
  static Result<File> open(Io& io, const std::string& path, int flags);
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  // Transfers all bytes, in as many calls as it takes. read_all: kCorrupt if the file ends before.
  Status read_all(void* buffer, size_t size, uint64_t at);
  // Reads at least one byte, or returns 0 at the end of the file.
  Result<size_t> read_some(void* buffer, size_t size, uint64_t at);
  Status write_all(const void* buffer, size_t size, uint64_t at);
  Status reserve(uint64_t size);  // reserve_space()
  // fsync, then close; both are checked. A failed fsync must not be tried again: the kernel may have dropped the pages.
  Status sync_and_close();
  Status close();
  const std::string& path() const { return path_; }

 private:
  File(Io& io, std::string path, int fd) : io_(&io), path_(std::move(path)), fd_(fd) {}
  Io* io_;
  std::string path_;
  int fd_;
};

// Reads a small file as text. kNotFound, kCorrupt if larger than max_bytes, kIo.
Result<std::string> read_small_file(Io& io, const std::string& path, uint64_t max_bytes);
// Writes a new file (it must not exist), and fsyncs it if `durable`. On error it is removed again.
Status write_new_file(Io& io, const std::string& path, std::string_view text, bool durable);
// Replaces a file by a new one at once: temporary name, (fsync,) rename. The directory is not synced.
Status replace_file(Io& io, const std::string& path, const std::string& temporary, std::string_view text, bool durable);
Result<std::vector<std::string>> list_directory(Io& io, const std::string& path);
// Removes a directory and its content, two levels deep (a checkpoint or a run has no more), or what else has this name:
// of a link itself, not what it leads to. Missing files are no error.
Status remove_tree(Io& io, const std::string& path, int depth = 2);

}  // namespace dl::ckpt
