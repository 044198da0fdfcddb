// SPDX-License-Identifier: Apache-2.0
// A data file being written past the page cache (O_DIRECT), or through it where the file system does not allow that.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "checkpoint/store/file.h"

namespace dl::ckpt {

class OutputFile {
 public:
  // Opens with `flags` (open(2)'s) and O_DIRECT.
  static Result<std::unique_ptr<OutputFile>> open(Io& io, const std::string& path, int flags);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Everything a multiple of 4096, the memory too. Any number of calls at once, if the Io allows that.
  Status write(const void* data, size_t size, uint64_t at);
  Status reserve(uint64_t size);
  Status set_size(uint64_t size);
  // fsync of what was written since; a failed one must not be tried again.
  Status sync();
  Status close();

  // For io_uring. A write that fails there is made again by write().
  int descriptor() const { return direct_fd_.load(std::memory_order_acquire); }
  const std::string& path() const { return path_; }

 private:
  OutputFile(Io& io, std::string path, int fd, bool direct);
  Status fall_back();
  Io& io_;
  std::string path_;
  std::atomic<int> direct_fd_;
  std::atomic<int> buffered_fd_{-1};  // opened when a direct write was refused
  std::mutex fall_back_mutex_;
};

}  // namespace dl::ckpt
