// SPDX-License-Identifier: Apache-2.0
#include "common/base/own_folder.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr int kMostLinks = 40;

// Whatever it is: the place is the site's, not the user's.
Error place_error(const std::string& what, int sys_errno) {
  Error error = errno_error(what, sys_errno);
  error.code = error.code == Errc::kNoSpace ? Errc::kNoSpace : Errc::kIo;
  return error;
}

bool trusted(uid_t uid) {
  return uid == 0 || uid == ::geteuid();
}

// Follows the path part by part. `folder` becomes the path without links.
Status walk_to(const std::string& path, int links, std::string* folder) {
  for (const std::string& part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      folder->erase(folder->rfind('/') == std::string::npos ? 0 : folder->rfind('/'));
      continue;
    }
    const std::string next = *folder + "/" + part;
    struct stat status {};
    if (::lstat(next.c_str(), &status) != 0) {
      if (errno != ENOENT) return place_error(next, errno);
      if (::mkdir(next.c_str(), 0700) != 0 && errno != EEXIST) return place_error("create " + next, errno);
      if (::lstat(next.c_str(), &status) != 0) return place_error(next, errno);
    }
    if (S_ISLNK(status.st_mode)) {
      if (!trusted(status.st_uid))
        return Error{Errc::kIo, next + " is a symbolic link of another user, which is not followed"};
      if (links >= kMostLinks) return Error{Errc::kIo, next + ": too many symbolic links"};
      char target[PATH_MAX];
      const ssize_t n = ::readlink(next.c_str(), target, sizeof target);
      if (n < 0 || n == sizeof target) return place_error(next, errno);
      const std::string text(target, static_cast<size_t>(n));
      if (text.front() == '/') folder->clear();
      DL_TRY(walk_to(text, links + 1, folder));
      continue;
    }
    if (!S_ISDIR(status.st_mode)) return Error{Errc::kIo, next + " is not a folder"};
    if (!trusted(status.st_uid))
      return Error{Errc::kIo, next + " is a folder of another user, who could replace what is in it"};
    if ((status.st_mode & 0022) != 0 && (status.st_mode & S_ISVTX) == 0 && status.st_uid != ::geteuid())
      return Error{
          Errc::kIo,
          next + " may be written by others and has no sticky bit (chmod +t), so they could replace what is in it"};
    *folder = next;
  }
  return {};
}

}  // namespace

Result<std::string> own_folder(const std::string& dir, const std::string& name) {
  if (dir.empty() || dir.front() != '/') return Error{Errc::kIo, "'" + dir + "' is not an absolute path"};
  std::string folder;
  DL_TRY(walk_to(dir, 0, &folder));
  folder += "/" + name;
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return place_error("create " + folder, errno);
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return place_error(folder, errno);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid())
    return Error{Errc::kIo, folder + " is not a folder of this user"};
  if ((status.st_mode & 0077) != 0 && ::chmod(folder.c_str(), 0700) != 0)
    return place_error("set the mode of " + folder, errno);
  return folder;
}

}  // namespace dl
