// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/folder_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "common/base/unique_fd.h"

namespace dl::ctl {
namespace {

constexpr int kDeepest = 64;
constexpr int64_t kBlock = 512;  // the unit of st_blocks

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

Result<UniqueFd> open_folder(int above, const std::string& name) {
  UniqueFd fd(::openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd) return fd;
  if (errno == ENOTDIR || errno == ELOOP)
    return Error{Errc::kInvalid, "'" + name + "' is not a folder, or a link to one"};
  return errno_error("open " + name, errno);
}

// The names in a folder, without "." and "..".
Result<std::vector<std::string>> names_in(int folder) {
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, CloseFolder> stream(copy < 0 ? nullptr : ::fdopendir(copy));
  if (!stream) return errno_error("read a folder", errno);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream.get())) {  // NOLINT(concurrency-mt-unsafe): a stream of its own
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

Status look(int folder, const struct stat& top, int depth, bool in_results, TreeFacts* facts) {
  if (depth > kDeepest)
    return Error{Errc::kInvalid, "the folder has more than " + std::to_string(kDeepest) +
                                     " levels of folders in one another; allowed: up to that many"};
  DL_TRY_ASSIGN(const std::vector<std::string> names, names_in(folder));
  for (const std::string& name : names) {
    struct stat status = {};
    if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;  // it was removed a moment ago
    facts->bytes += status.st_blocks * kBlock;
    facts->foreign = facts->foreign || status.st_dev != top.st_dev || status.st_uid != top.st_uid;
    if (S_ISDIR(status.st_mode)) {
      if (status.st_dev != top.st_dev) continue;
      DL_TRY_ASSIGN(const UniqueFd below, open_folder(folder, name));
      DL_TRY(look(below.get(), top, depth + 1, in_results || (depth == 0 && name == "results"), facts));
      continue;
    }
    // A checkpoint directory contains the file LEASE from its first save on (dlckpt-format(5)).
    if (name == "LEASE") facts->checkpoint = true;
    if (in_results && facts->results.empty()) facts->results = name;
    if (!S_ISREG(status.st_mode)) continue;
    ++facts->files;
    facts->newest_s = std::max<int64_t>(facts->newest_s, status.st_mtim.tv_sec);
  }
  return {};
}

Status remove_in(int folder, dev_t device, int depth) {
  if (depth > kDeepest)
    return Error{Errc::kInvalid, "the folder has more than " + std::to_string(kDeepest) +
                                     " levels of folders in one another; allowed: up to that many"};
  DL_TRY_ASSIGN(const std::vector<std::string> names, names_in(folder));
  for (const std::string& name : names) {
    struct stat status = {};
    if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const bool is_folder = S_ISDIR(status.st_mode);
    if (is_folder) {
      if (status.st_dev != device)
        return Error{Errc::kInvalid, "'" + name + "' lies on another file system, which is left alone"};
      DL_TRY_ASSIGN(const UniqueFd below, open_folder(folder, name));
      DL_TRY(remove_in(below.get(), device, depth + 1));
    }
    if (::unlinkat(folder, name.c_str(), is_folder ? AT_REMOVEDIR : 0) != 0 && errno != ENOENT)
      return errno_error("remove " + name, errno);
  }
  return {};
}

}  // namespace

Result<TreeFacts> look_at_tree(const std::string& path) {
  DL_TRY_ASSIGN(const UniqueFd folder, open_folder(AT_FDCWD, path));
  struct stat top = {};
  if (::fstat(folder.get(), &top) != 0) return errno_error("look at " + path, errno);
  TreeFacts facts;
  facts.foreign = top.st_uid != ::geteuid();
  facts.bytes = top.st_blocks * kBlock;
  DL_TRY(look(folder.get(), top, 0, false, &facts));
  return facts;
}

Status remove_tree(const std::string& path) {
  DL_TRY_ASSIGN(const UniqueFd folder, open_folder(AT_FDCWD, path));
  struct stat top = {};
  if (::fstat(folder.get(), &top) != 0) return errno_error("look at " + path, errno);
  DL_TRY(remove_in(folder.get(), top.st_dev, 0));
  if (::rmdir(path.c_str()) != 0) return errno_error("remove " + path, errno);
  return {};
}

}  // namespace dl::ctl
