// SPDX-License-Identifier: Apache-2.0
// Turns our errors into what the C functions of dlckpt.h return: an error code from one table, and a sentence. Nothing
// here throws.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "checkpoint/include/dlckpt.h"
#include "common/base/guard.h"
#include "common/base/result.h"

namespace dl::ckpt {

// A DLCKPT_E_... for each error.
dlckpt_error to_c(const Error& error);

// The calling thread's sentence for dlckpt_open_error().
std::string* open_message() noexcept;

// Stores the sentence in *where; empties it if memory runs out.
void tell(std::string* where, const char* text) noexcept;

// Runs body() -> Status: DLCKPT_OK and an empty *message, or the error and its sentence; bad_alloc gives MEMORY, any
// other exception INTERNAL.
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
