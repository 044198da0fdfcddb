// SPDX-License-Identifier: Apache-2.0
// The one interface through which libdlckpt and dlckpt use the file system, so that tests can make any operation fail
// or be short, or record it. It mirrors the system calls: results are the same, but errors are returned as -errno.
// Callers have to retry short transfers and EINTR themselves (store/file.h does), because errors hide in such code and
// it needs tests.
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
    int64_t modified_ms = 0;  // by the file system's clock, Unix milliseconds
    uint64_t links = 1;       // number of names that this file has
  };

  Io() = default;
  Io(const Io&) = delete;
  Io& operator=(const Io&) = delete;
  virtual ~Io() = default;

  // Whether several threads may make operations at once, in any order. A test double that counts operations says no:
  // then they come one after another, always in the same order.
  virtual bool concurrent() const { return false; }
  // Whether descriptors are the kernel's own, so that io_uring may write instead of pwrite().
  virtual bool native() const { return false; }

  // Descriptors. `flags` are those of open(2); O_CLOEXEC is added. New files get mode 0666 less the umask. Never waits
  // for another process; -ENXIO if the path is no regular file (a FIFO, a device), -EISDIR for a directory.
  virtual int open(const std::string& path, int flags) = 0;
  virtual int close(int fd) = 0;
  virtual int64_t pread(int fd, void* buffer, size_t size, uint64_t at) = 0;
  virtual int64_t pwrite(int fd, const void* buffer, size_t size, uint64_t at) = 0;
  virtual int fsync(int fd) = 0;
  virtual int fallocate(int fd, uint64_t size) = 0;  // allocates blocks for [0, size), and sets this length
  virtual int ftruncate(int fd, uint64_t size) = 0;

  // Names.
  virtual int stat(const std::string& path, Info* info) = 0;
  // The same of a symbolic link itself, which is neither a directory nor regular. This one is for doubles without
  // links.
  virtual int stat_link(const std::string& path, Info* info) { return stat(path, info); }
  virtual int mkdir(const std::string& path) = 0;
  virtual int rmdir(const std::string& path) = 0;
  virtual int unlink(const std::string& path) = 0;
  // Sets permission bits. In a test double without this function it fails: then ranks have no secret, and exchange no
  // bytes.
  virtual int chmod(const std::string& /*path*/, unsigned /*mode*/) { return -ENOSYS; }
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int link(const std::string& from, const std::string& to) = 0;  // fails with -EEXIST, never replaces a file
  // Lists the names in a directory, without "." and "..", in no order. It opens the directory anew, which on NFS makes
  // entries visible that other hosts have created.
  virtual int list(const std::string& path, std::vector<std::string>* names) = 0;
  virtual int fsync_directory(const std::string& path) = 0;
};

// The real file system. It has no state, may be used by any thread, and is never destroyed.
Io& posix_io();

}  // namespace dl::ckpt
