// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/write_all.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/unique_fd.h"
#include "launcher/data/fault.h"
#include "launcher/data/file_time.h"

namespace dl::data {
namespace {

Status remove_below(UniqueFd fd, const std::string& path) {
  const int number = fd.get();
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(number), &::closedir);
  if (dir == nullptr) return local_error("list " + path, errno);
  fd.release();  // closedir() closes it
  while (const dirent* item = ::readdir(dir.get())) {
    const std::string name = item->d_name;
    if (name == "." || name == "..") continue;
    if (item->d_type != DT_DIR) {
      if (::unlinkat(number, name.c_str(), 0) == 0 || errno == ENOENT) continue;
      if (errno != EISDIR) return local_error("remove " + path + "/" + name, errno);
    }
    // The folders of a set are read-only.
    UniqueFd inner(::openat(number, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!inner && errno == ENOENT) continue;  // another node may be removing it, too
    if (!inner) {
      ::fchmodat(number, name.c_str(), 0700, 0);
      inner = UniqueFd(::openat(number, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    }
    if (!inner && errno == ENOENT) continue;
    if (!inner) return local_error("open " + path + "/" + name, errno);
    ::fchmod(inner.get(), 0700);
    DL_TRY(remove_below(std::move(inner), path + "/" + name));
    if (::unlinkat(number, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
      return local_error("remove " + path + "/" + name, errno);
  }
  return {};
}

}  // namespace

Status write_all(int fd, std::string_view data, const std::string& path) {
  const Status written = dl::write_all(fd, data, path);
  return written ? Status() : Status(local_error("write " + path, written.error().sys_errno));
}

Status set_time(int fd, int64_t mtime_ns, const std::string& path) {
  int64_t seconds = mtime_ns / kNsPerSecond, rest = mtime_ns % kNsPerSecond;
  if (rest < 0) --seconds, rest += kNsPerSecond;
  const timespec times[2] = {{0, UTIME_OMIT}, {seconds, rest}};
  return ::futimens(fd, times) == 0 ? Status() : Status(local_error("set the time of " + path, errno));
}

Status sync_file_system(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return local_error("open " + folder, errno);
  return ::syncfs(fd.get()) == 0 ? Status() : Status(local_error("write out " + folder, errno));
}

Status sync_folder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return local_error("open " + folder, errno);
  return ::fsync(fd.get()) == 0 || errno == EINVAL ? Status() : Status(local_error("write out " + folder, errno));
}

Status remove_tree(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT ? Status() : Status(local_error(path, errno));
  if (!S_ISDIR(status.st_mode))
    return ::unlink(path.c_str()) == 0 || errno == ENOENT ? Status() : Status(local_error("remove " + path, errno));
  ::chmod(path.c_str(), 0700);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno == ENOENT) return {};
  if (!fd) return local_error("open " + path, errno);
  DL_TRY(remove_below(std::move(fd), path));
  return ::rmdir(path.c_str()) == 0 || errno == ENOENT ? Status() : Status(local_error("remove " + path, errno));
}

}  // namespace dl::data
