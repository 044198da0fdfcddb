// SPDX-License-Identifier: Apache-2.0
#include "common/base/result.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace dl {

Error::Error(Errc kind, std::string sentence, int cause) : code(kind), text(std::move(sentence)), sys_errno(cause) {}
Error::Error(const Error& other) = default;
Error::Error(Error&& other) noexcept = default;
Error& Error::operator=(const Error& other) = default;
Error& Error::operator=(Error&& other) noexcept = default;
Error::~Error() = default;

Error&& Error::with_context(const std::string& context) && {
  text = context + ": " + text;
  return std::move(*this);
}

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

void throw_wrong_access() {
  throw std::bad_variant_access();
}

}  // namespace dl
