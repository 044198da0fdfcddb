// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/fault.h"

#include <cerrno>
#include <utility>

namespace dl::data {
namespace {

Error with_code(Errc code, const std::string& what, int sys_errno) {
  Error error = errno_error(what, sys_errno);
  error.code = code;
  return error;
}

}  // namespace

Error source_error(const std::string& what, int sys_errno) {
  switch (sys_errno) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENXIO:
      return with_code(Errc::kNotFound, what, sys_errno);
    case EACCES:
    case EPERM:
      return with_code(Errc::kDenied, what, sys_errno);
    case ENAMETOOLONG:
    case EINVAL:
      return with_code(Errc::kInvalid, what, sys_errno);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return with_code(Errc::kIo, what, sys_errno);  // of this node
    default:
      return with_code(Errc::kBusy, what, sys_errno);
  }
}

Error local_error(const std::string& what, int sys_errno) {
  const bool full = sys_errno == ENOSPC || sys_errno == EDQUOT || sys_errno == EFBIG || sys_errno == EMLINK;
  return with_code(full ? Errc::kNoSpace : Errc::kIo, what, sys_errno);
}

Error destination_error(const std::string& what, int sys_errno) {
  if (sys_errno == ENOSPC || sys_errno == EDQUOT || sys_errno == EROFS || sys_errno == EFBIG)
    return with_code(Errc::kDenied, what, sys_errno);
  if (sys_errno == EISDIR || sys_errno == ENOTEMPTY || sys_errno == EEXIST)
    return with_code(Errc::kExists, what, sys_errno);
  return source_error(what, sys_errno);
}

Error of_destination(Error error) {
  if (error.code == Errc::kNoSpace) error.code = Errc::kDenied;
  if (error.code == Errc::kIo) error.code = Errc::kBusy;
  return error;
}

Error late_error(std::string text) {
  return Error{Errc::kTimeout, std::move(text), ETIME};
}

int exit_status(const Error& error) {
  switch (error.code) {
    case Errc::kInvalid:
    case Errc::kConflict:
    case Errc::kNotFound:
    case Errc::kDenied:
    case Errc::kExists:
    case Errc::kCorrupt:
    case Errc::kUnsupported:
      return kExitUser;
    case Errc::kTimeout:
      return error.sys_errno == ETIME ? kExitLate : kExitLater;
    case Errc::kBusy:
      return kExitLater;
    case Errc::kNoSpace:
    case Errc::kIo:
      return kExitLocalDisk;
    case Errc::kInternal:
      break;
  }
  return kExitFault;
}

bool may_pass(const Error& error) {
  return exit_status(error) == kExitLater;
}

}  // namespace dl::data
