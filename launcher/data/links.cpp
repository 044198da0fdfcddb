// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "launcher/data/fault.h"
#include "launcher/data/fetch.h"

namespace dl::data {
namespace {

// Puts a link in the place of nothing or of another link. Other nodes may do so in the same folder at once, and their
// processes have numbers of their own. The place's name may be as long as names can be.
Status place_link(const std::string& target, const std::string& place) {
  const std::string temporary =
      fmt::format("{}.dl-link-{}-{}", place.substr(0, place.rfind('/') + 1), node_name(), ::getpid());
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0) return destination_error("create " + temporary, errno);
  if (::rename(temporary.c_str(), place.c_str()) == 0) return {};
  const int rename_errno = errno;
  ::unlink(temporary.c_str());
  return destination_error("rename to " + place, rename_errno);
}

Status link_each(const std::string& folder, const std::string& target) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(target.c_str()), &::closedir);
  if (dir == nullptr) return destination_error("list " + target, errno);
  while (const dirent* item = ::readdir(dir.get())) {
    const std::string name = item->d_name;
    if (name == "." || name == "..") continue;
    const std::string place = folder + "/" + name;
    struct stat status {};
    if (::lstat(place.c_str(), &status) == 0 && !S_ISLNK(status.st_mode))
      return Error{Errc::kExists, printable(place, 400) + " is in the way of the data of that name; remove it"};
    DL_TRY(place_link(target + "/" + name, place));
  }
  return {};
}

}  // namespace

Status link_to(const std::string& dest, const std::string& to, const std::string& target) {
  const std::string place = to.empty() ? dest : dest + "/" + to;
  if (const size_t slash = place.rfind('/'); slash != std::string::npos && slash > 0)
    if (Status made = make_directories(place.substr(0, slash)); !made)
      return destination_error("create " + place.substr(0, slash), made.error().sys_errno);
  struct stat status {};
  if (::lstat(place.c_str(), &status) != 0 || S_ISLNK(status.st_mode)) return place_link(target, place);
  if (!S_ISDIR(status.st_mode))
    return Error{Errc::kExists, printable(place, 400) + " is in the way of the data; allowed: nothing, or a folder"};
  if (::rmdir(place.c_str()) == 0) return place_link(target, place);
  return link_each(place, target);
}

}  // namespace dl::data
