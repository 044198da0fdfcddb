// SPDX-License-Identifier: Apache-2.0
#include "common/base/standard_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace dl {

void open_closed_standard_files() {
  int fd = 0;
  // open() returns the lowest free number, so the loop ends above 2. These descriptors have no O_CLOEXEC: children
  // inherit them.
  do {
    fd = ::open("/dev/null", O_RDWR);  // NOLINT(android-cloexec-open)
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) ::close(fd);
}

bool standard_input_is_given() {
  struct stat facts {};
  if (::fstat(STDIN_FILENO, &facts) != 0) return false;
  return S_ISREG(facts.st_mode) || S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode);
}

Status flush_standard_output() {
  if (std::fflush(stdout) != 0) return errno_error("standard output", errno);
  // An earlier write failed, and its errno is no longer known.
  if (std::ferror(stdout) != 0) return errno_error("standard output", EIO);
  return {};
}

}  // namespace dl
