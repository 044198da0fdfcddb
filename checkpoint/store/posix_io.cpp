// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "checkpoint/store/io.h"

namespace dl::ckpt {
namespace {

int result(int rc) {
  return rc < 0 ? -errno : rc;
}

class PosixIo final : public Io {
 public:
  bool concurrent() const override { return true; }
  bool native() const override { return true; }
  int open(const std::string& path, int flags) override {
    // Without O_NONBLOCK a FIFO in the place of a file would block open() until a process writes to it; opening a
    // device may have other effects.
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (fd < 0) return -errno;
    struct stat st {};
    int rc = result(::fstat(fd, &st));
    if (rc == 0 && !S_ISREG(st.st_mode)) rc = S_ISDIR(st.st_mode) ? -EISDIR : -ENXIO;
    // On a descriptor with O_NONBLOCK io_uring would return EAGAIN instead of waiting for the disk.
    if (rc == 0) rc = result(::fcntl(fd, F_GETFL));
    if (rc >= 0) rc = result(::fcntl(fd, F_SETFL, rc & ~O_NONBLOCK));
    if (rc == 0) return fd;
    ::close(fd);
    return rc;
  }
  int close(int fd) override { return result(::close(fd)); }
  int64_t pread(int fd, void* buffer, size_t size, uint64_t at) override {
    const ssize_t n = ::pread(fd, buffer, size, static_cast<off_t>(at));
    return n < 0 ? -errno : n;
  }
  int64_t pwrite(int fd, const void* buffer, size_t size, uint64_t at) override {
    const ssize_t n = ::pwrite(fd, buffer, size, static_cast<off_t>(at));
    return n < 0 ? -errno : n;
  }
  int fsync(int fd) override { return result(::fsync(fd)); }
  int fallocate(int fd, uint64_t size) override { return result(::fallocate(fd, 0, 0, static_cast<off_t>(size))); }
  int ftruncate(int fd, uint64_t size) override { return result(::ftruncate(fd, static_cast<off_t>(size))); }

  int stat(const std::string& path, Info* info) override {
    struct stat st {};
    return ::stat(path.c_str(), &st) < 0 ? -errno : tell(st, info);
  }
  int stat_link(const std::string& path, Info* info) override {
    struct stat st {};
    return ::lstat(path.c_str(), &st) < 0 ? -errno : tell(st, info);
  }
  static int tell(const struct stat& st, Info* info) {
    info->size = static_cast<uint64_t>(st.st_size);
    info->directory = S_ISDIR(st.st_mode);
    info->regular = S_ISREG(st.st_mode);
    info->links = static_cast<uint64_t>(st.st_nlink);
    info->modified_ms = static_cast<int64_t>(st.st_mtim.tv_sec) * 1000 + st.st_mtim.tv_nsec / 1000000;
    return 0;
  }
  int mkdir(const std::string& path) override { return result(::mkdir(path.c_str(), 0777)); }
  int rmdir(const std::string& path) override { return result(::rmdir(path.c_str())); }
  int unlink(const std::string& path) override { return result(::unlink(path.c_str())); }
  int chmod(const std::string& path, unsigned mode) override { return result(::chmod(path.c_str(), mode)); }
  int rename(const std::string& from, const std::string& to) override {
    return result(std::rename(from.c_str(), to.c_str()));
  }
  int link(const std::string& from, const std::string& to) override { return result(::link(from.c_str(), to.c_str())); }

  int list(const std::string& path, std::vector<std::string>* names) override {
    names->clear();
    DIR* directory = ::opendir(path.c_str());
    if (!directory) return -errno;
    int rc = 0;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(directory);  // only one thread uses each DIR
      if (!entry) {
        rc = -errno;
        break;
      }
      if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
        names->emplace_back(entry->d_name);
    }
    ::closedir(directory);
    return rc;
  }
  int fsync_directory(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    const int rc = result(::fsync(fd));
    ::close(fd);
    return rc;
  }
};

}  // namespace

Io& posix_io() {
  static PosixIo* io = new PosixIo;  // never destroyed, because contexts may be closed by exit handlers
  return *io;
}

}  // namespace dl::ckpt
