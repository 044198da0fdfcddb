// SPDX-License-Identifier: Apache-2.0
// Turns our errors into what the C functions of dlckpt.h return: an error code from one table, and a message. Nothing
// here throws.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "checkpoint/include/dlckpt.h"
#include "common/base/guard.h"
#include "common/base/result.h"

namespace dl::ckpt {

// The DLCKPT_E_... code of an error.
dlckpt_error to_c(const Error& error);

// The message of the calling thread for dlckpt_open_error().
std::string* open_message() noexcept;
// That for dlckpt_close_error().
std::string* close_message() noexcept;

// Stores the message in *where, or empties *where if memory runs out.
void tell(std::string* where, const char* text) noexcept;

// Runs body(), which returns a Status. Returns DLCKPT_OK with an empty *message, or the error with its message;
// bad_alloc gives MEMORY, any other exception INTERNAL.
template <typename Body>
dlckpt_error run(std::string* message, Body&& body) noexcept {
  return guard(
      DLCKPT_E_INTERNAL, [&](const char* what) { tell(message, what); },
      [&]() -> dlckpt_error {
        message->clear();
        try {
          const Status status = std::forward<Body>(body)();
          if (status) return DLCKPT_OK;
          tell(message, status.error().text.c_str());
          return to_c(status.error());
        } catch (const std::bad_alloc&) {
          tell(message, "out of memory");
          return DLCKPT_E_MEMORY;
        }
      });
}

}  // namespace dl::ckpt
