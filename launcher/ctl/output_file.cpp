// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/output_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"

namespace dl::ctl {
namespace {

Error cannot_write(const std::string& path, const std::string& why, int number = 0) {
  return Error{Errc::kIo, printable(path, 300) + " cannot be written: " + why + "; name another file", number};
}

Error cannot_write(const std::string& path, int number) {
  return cannot_write(path, std::generic_category().message(number), number);
}

// The file itself, where `path` is a link to it.
Result<std::string> file_to_write(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return path;
    return cannot_write(path, errno);
  }
  std::string real = path;
  if (S_ISLNK(status.st_mode)) {
    const std::unique_ptr<char, decltype(&std::free)> found(::realpath(path.c_str(), nullptr), &std::free);
    if (found == nullptr || ::lstat(found.get(), &status) != 0) return cannot_write(path, errno);
    real = found.get();
  }
  if (S_ISDIR(status.st_mode)) return cannot_write(path, "it is a folder");
  if (!S_ISREG(status.st_mode)) return cannot_write(path, "it is not a regular file");
  return real;
}

}  // namespace

Status write_output_file(const std::string& path, const std::string& content) {
  DL_TRY_ASSIGN(const std::string file, file_to_write(path));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const Status written = replace_file(file, content, 0666 & ~mask);
  if (written) return {};
  return cannot_write(path, written.error().sys_errno);
}

}  // namespace dl::ctl
