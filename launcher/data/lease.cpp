// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/lease.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/atomic_file.h"
#include "launcher/data/digest.h"
#include "launcher/data/fault.h"

namespace dl::data {
namespace {

#ifndef XFS_SUPER_MAGIC
constexpr long XFS_SUPER_MAGIC = 0x58465342;
#endif
constexpr long kZfsMagic = 0x2fc12fc1;
constexpr long kBcachefsMagic = 0xca451a4e;

}  // namespace

bool is_local(const std::string& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return false;
  for (const long magic : {long{EXT4_SUPER_MAGIC}, long{XFS_SUPER_MAGIC}, long{BTRFS_SUPER_MAGIC}, long{TMPFS_MAGIC},
                           long{OVERLAYFS_SUPER_MAGIC}, long{F2FS_SUPER_MAGIC}, kZfsMagic, kBcachefsMagic})
    if (status.f_type == magic) return true;
  return false;
}

Result<std::string> lock_folder(const std::string& cache) {
  std::string folder = cache + "/locks";
  if (!is_local(cache)) {
    Digest digest(DigestKind::kSha256);
    digest.add(cache);
    folder = fmt::format("/tmp/.slurm-dl-locks-{}-{}", ::getuid(), digest.hex().substr(0, 16));
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return local_error("create " + folder, errno);
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return local_error(folder, errno);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 0022) != 0)
    return Error{Errc::kIo, folder + " is not a folder of this user alone, so no locks are kept in it; remove it"};
  return folder;
}

Result<Lock> Lock::take(const std::string& file, int how) {
  for (;;) {
    Lock lock;
    lock.fd_ = UniqueFd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.fd_) return local_error("open " + file, errno);
    int done = 0;
    do done = ::flock(lock.fd_.get(), how);
    while (done != 0 && errno == EINTR);
    if (done != 0 && errno == EWOULDBLOCK) return Lock();
    struct stat status {};
    if (done != 0 || ::fstat(lock.fd_.get(), &status) != 0) return local_error("lock " + file, errno);
    // Who held it before may have removed the file, and others have another one by now.
    if (status.st_nlink > 0) return lock;
  }
}

Result<Lock> Lock::wait(const std::string& file, Kind kind) {
  return take(file, kind == Kind::kShared ? LOCK_SH : LOCK_EX);
}

Result<Lock> Lock::attempt(const std::string& file, Kind kind) {
  return take(file, (kind == Kind::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB);
}

}  // namespace dl::data
