// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/c_errors.h"

#include <cerrno>

namespace dl::ckpt {
namespace {

dlckpt_error code_of(Errc code) {
  switch (code) {
    case Errc::kInvalid:
      return DLCKPT_E_INVALID;
    case Errc::kConflict:
      return DLCKPT_E_MISMATCH;
    case Errc::kNotFound:
      return DLCKPT_E_NOT_FOUND;
    case Errc::kDenied:
      return DLCKPT_E_DENIED;
    case Errc::kExists:
      return DLCKPT_E_IO;
    case Errc::kBusy:
      return DLCKPT_E_BUSY;
    case Errc::kNoSpace:
      return DLCKPT_E_NO_SPACE;
    case Errc::kIo:
      return DLCKPT_E_IO;
    case Errc::kCorrupt:
      return DLCKPT_E_CORRUPT;
    case Errc::kTimeout:
      return DLCKPT_E_TIMEOUT;
    case Errc::kUnsupported:
      return DLCKPT_E_INVALID;
    case Errc::kInternal:
      return DLCKPT_E_INTERNAL;
  }
  return DLCKPT_E_INTERNAL;
}

}  // namespace

dlckpt_error to_c(const Error& error) {
  if (error.sys_errno == ENOMEM) return DLCKPT_E_MEMORY;
  if (error.code == Errc::kBusy && error.sys_errno == EALREADY) return DLCKPT_E_IN_FLIGHT;
  return code_of(error.code);
}

std::string* open_message() noexcept {
  static thread_local std::string message;
  return &message;
}

std::string* close_message() noexcept {
  static thread_local std::string message;
  return &message;
}

void tell(std::string* where, const char* text) noexcept {
  try {
    where->assign(text);
  } catch (...) {
    where->clear();
  }
}

}  // namespace dl::ckpt

extern "C" const char* dlckpt_open_error(void) {
  return dl::ckpt::open_message()->c_str();
}

extern "C" const char* dlckpt_close_error(void) {
  return dl::ckpt::close_message()->c_str();
}
