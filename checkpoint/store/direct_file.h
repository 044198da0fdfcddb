// SPDX-License-Identifier: Apache-2.0
// A file that is only read (direct_output.h writes), past the page cache (O_DIRECT) if the file system allows it: a
// restore reads each byte once, so the cache would only cost a copy and displace what the job needs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "checkpoint/store/file.h"

namespace dl::ckpt {

constexpr uint64_t kDirectAlignment = 4096;

// Memory into which O_DIRECT can read. It can grow; its content is then lost.
class AlignedBuffer {
 public:
  // Memory of at least `size` bytes. Throws std::bad_alloc.
  unsigned char* at_least(size_t size);

 private:
  struct Free {
    void operator()(unsigned char* memory) const;
  };
  std::unique_ptr<unsigned char, Free> memory_;
  size_t size_ = 0;
};

class DirectFile {
 public:
  // Errors as those of File::open.
  static Result<std::unique_ptr<DirectFile>> open(Io& io, const std::string& path);

  // Reads the bytes [at, at + size); they lie in *buffer until it is used again. kCorrupt if the file ends before; kIo.
  // Any thread may call it, each with a buffer of its own.
  Result<const unsigned char*> read(uint64_t at, size_t size, AlignedBuffer* buffer);
  const std::string& path() const { return path_; }

 private:
  DirectFile(Io& io, std::string path) : io_(io), path_(std::move(path)) {}
  Result<File*> plain();

  Io& io_;
  const std::string path_;
  std::optional<File> direct_;
  std::atomic<bool> direct_works_{false};
  std::mutex mutex_;  // guards plain_
  std::optional<File> plain_;
};

}  // namespace dl::ckpt
