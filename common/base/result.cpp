// SPDX-License-Identifier: Apache-2.0
#include "common/base/result.h"

#include <cerrno>
#include <cstring>

namespace dl {

Error errno_error(const std::string& what, int sys_errno) {
  Errc code = Errc::kIo;
  switch (sys_errno) {
    case ENOSPC:
    case EDQUOT:
      code = Errc::kNoSpace;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = Errc::kDenied;
      break;
    case ENOENT:
      code = Errc::kNotFound;
      break;
    case EEXIST:
      code = Errc::kExists;
      break;
    default:
      break;
  }
  char buffer[256];
  // GNU strerror_r: thread-safe, returns the text.
  return Error{code, what + ": " + strerror_r(sys_errno, buffer, sizeof buffer), sys_errno};
}

}  // namespace dl
