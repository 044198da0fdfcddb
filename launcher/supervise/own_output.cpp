// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/own_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/result.h"

namespace dl::supervise {
namespace {

bool is_loss(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
}

}  // namespace

std::string why_full(int descriptor, const std::string& name) {
  struct stat file {};
  if (::fstat(descriptor, &file) != 0) return {};
  // Nothing is written, but a device that is full says so: /dev/full. A file says it of the next block.
  int error = 0;
  if (S_ISCHR(file.st_mode) && ::isatty(descriptor) == 0 && ::write(descriptor, "", 0) < 0) error = errno;
  if (S_ISREG(file.st_mode) && ::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, file.st_size, 1) != 0) error = errno;
  return is_loss(error) ? errno_error(name, error).text : std::string();
}

}  // namespace dl::supervise
