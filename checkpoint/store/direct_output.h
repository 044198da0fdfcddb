// SPDX-License-Identifier: Apache-2.0
// A file that is written past the page cache (O_DIRECT), at any place by any number of threads, or through the cache
// where the file system does not allow that. It appears under its name at once: whoever writes it publishes it by the
// directory it lies in. (convert/output_file.h is for single files; direct_file.h reads.)
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "checkpoint/store/file.h"

namespace dl::ckpt {

class DirectOutput {
 public:
  // Opens with `flags` (open(2)'s) and O_DIRECT.
  static Result<std::unique_ptr<DirectOutput>> open(Io& io, const std::string& path, int flags);
  ~DirectOutput();
  DirectOutput(const DirectOutput&) = delete;
  DirectOutput& operator=(const DirectOutput&) = delete;

  // Everything a multiple of 4096, the memory too. Any number of calls at once, if the Io allows that. kNoSpace, kIo,
  // kDenied, as the others.
  Status write(const void* data, size_t size, uint64_t at);
  // As File::reserve.
  Status reserve(uint64_t size);
  // Cuts off what write() had to write beyond the end, or a longer file's rest.
  Status set_size(uint64_t size);
  // fsync of what was written since; a failed one must not be tried again.
  Status sync();
  // Without fsync. Also on destruction, which ignores errors.
  Status close();

  // For io_uring. A write that fails there is made again by write().
  int descriptor() const { return direct_fd_.load(std::memory_order_acquire); }
  const std::string& path() const { return path_; }

 private:
  DirectOutput(Io& io, std::string path, int fd, bool direct);
  Status fall_back();
  Io& io_;
  std::string path_;
  std::atomic<int> direct_fd_;
  std::atomic<int> buffered_fd_{-1};  // opened when a direct write was refused
  std::mutex fall_back_mutex_;
};

}  // namespace dl::ckpt
