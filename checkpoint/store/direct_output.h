// SPDX-License-Identifier: Apache-2.0
// A file that is written past the page cache (O_DIRECT), at any offset and by any number of threads, or through the
// cache if the file system does not allow that. It appears under its name at once: its writer publishes it by
// publishing its directory. (convert/output_file.h is for single files; direct_file.h reads.)
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "checkpoint/store/file.h"

namespace dl::ckpt {

class DirectOutput {
 public:
  // Opens the file with `flags` (those of open(2)) and O_DIRECT.
  static Result<std::unique_ptr<DirectOutput>> open(Io& io, const std::string& path, int flags);
  ~DirectOutput();
  DirectOutput(const DirectOutput&) = delete;
  DirectOutput& operator=(const DirectOutput&) = delete;

  // Address, size and offset must be multiples of 4096. Any number of calls may run at once, if the Io allows that.
  // kNoSpace, kIo, kDenied, as the other functions.
  Status write(const void* data, size_t size, uint64_t at);
  // See File::reserve.
  Status reserve(uint64_t size);
  // Cuts off padding that write() had to write beyond the end, or the rest of a longer file.
  Status set_size(uint64_t size);
  // fsync of everything written so far. A failed one must not be tried again.
  Status sync();
  // Closes without fsync. The destructor does the same and ignores errors.
  Status close();

  // For io_uring. A write that fails there is repeated by write().
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
