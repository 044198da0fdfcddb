// SPDX-License-Identifier: Apache-2.0
// The C boundary: turns results and exceptions into the codes of dllearner.h, and keeps the sentence for
// dllearner_error.
#pragma once

#include <new>
#include <utility>

#include "common/base/guard.h"
#include "common/base/result.h"
#include "launcher/collectives/include/dllearner.h"

namespace dl::learner {

// Keeps the sentence for this thread, and returns the code.
dllearner_result keep_error(const Error& error) noexcept;
dllearner_result keep_error(dllearner_result code, const char* sentence) noexcept;
const char* kept_error() noexcept;

// Runs body (which returns Status). std::bad_alloc becomes DLLEARNER_E_MEMORY, any other exception
// DLLEARNER_E_INTERNAL.
template <typename Body>
dllearner_result answer(Body&& body) noexcept;

}  // namespace dl::learner

template <typename Body>
dllearner_result dl::learner::answer(Body&& body) noexcept {
  return guard(
      DLLEARNER_E_INTERNAL, [](const char* what) { keep_error(DLLEARNER_E_INTERNAL, what); },
      [&]() -> dllearner_result {
        try {
          const Status status = std::forward<Body>(body)();
          return status ? DLLEARNER_OK : keep_error(status.error());
        } catch (const std::bad_alloc&) {
          return keep_error(DLLEARNER_E_MEMORY, "out of memory");
        }
      });
}
