// SPDX-License-Identifier: Apache-2.0
// The one interface through which libdlckpt and dlckpt touch the file system, so that tests can make any operation
// fail, be short, or be recorded. It mirrors the system calls: results are as theirs, but errors come back as -errno.
// Retrying short transfers and EINTR is the caller's business (store/file.h does it), because that is a place where
// errors hide.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dl::ckpt {

class Io {
 public:
  struct Info {
    uint64_t size = 0;
    bool directory = false;
    bool regular = false;
    int64_t modified_ms = 0;  // the file system's clock, Unix milliseconds
    uint64_t links = 1;       // names this file has
  };

  Io() = default;
  Io(const Io&) = delete;
  Io& operator=(const Io&) = delete;
  virtual ~Io() = default;

  // Whether operations may be made by several threads at once, in any order. A double that counts them says no: then
  // they come one after another, in an order that is always the same.
  virtual bool concurrent() const { return false; }
  // Whether descriptors are the kernel's own, so that io_uring may write in the place of pwrite().
  virtual bool native() const { return false; }

  // Descriptors. flags are open(2)'s; O_CLOEXEC is added. New files get mode 0666 less the umask. Never waits for
  // another process; -ENXIO for what is no regular file (a FIFO, a device), -EISDIR for a directory.
  virtual int open(const std::string& path, int flags) = 0;
  virtual int close(int fd) = 0;
  virtual int64_t pread(int fd, void* buffer, size_t size, uint64_t at) = 0;
  virtual int64_t pwrite(int fd, const void* buffer, size_t size, uint64_t at) = 0;
  virtual int fsync(int fd) = 0;
  virtual int fallocate(int fd, uint64_t size) = 0;  // [0, size) gets blocks, the file this length
  virtual int ftruncate(int fd, uint64_t size) = 0;

  // Names.
  virtual int stat(const std::string& path, Info* info) = 0;
  virtual int mkdir(const std::string& path) = 0;
  virtual int rmdir(const std::string& path) = 0;
  virtual int unlink(const std::string& path) = 0;
  // Permission bits. A double that does not know it fails: then ranks have no secret, and pass no bytes to one another.
  virtual int chmod(const std::string& /*path*/, unsigned /*mode*/) { return -ENOSYS; }
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int link(const std::string& from, const std::string& to) = 0;  // fails with -EEXIST, never replaces
  // Names in a directory, without "." and "..", in no order. Opens the directory anew, which on NFS makes the entries
  // that other hosts have made visible.
  virtual int list(const std::string& path, std::vector<std::string>* names) = 0;
  virtual int fsync_directory(const std::string& path) = 0;
};

// The real one. Stateless; for any thread; never destroyed.
Io& posix_io();

}  // namespace dl::ckpt
