// SPDX-License-Identifier: Apache-2.0
// Where C++ stops: results as codes of dllearner.h, the sentence kept for dllearner_error.
#pragma once

#include <utility>

#include "common/base/guard.h"
#include "common/base/result.h"

namespace dl::learner {

// Keeps the sentence for this thread, and gives the code.
int keep_error(const Error& error) noexcept;
int keep_error(int code, const char* sentence) noexcept;
const char* kept_error() noexcept;

// Runs body (which returns Status); exceptions become codes, bad_alloc that of memory.
template <typename Body>
int answer(Body&& body) noexcept;

}  // namespace dl::learner

#include <new>

#include "launcher/collectives/include/dllearner.h"

template <typename Body>
int dl::learner::answer(Body&& body) noexcept {
  return guard(
      static_cast<int>(DLLEARNER_E_INTERNAL), [](const char* what) { keep_error(DLLEARNER_E_INTERNAL, what); },
      [&]() -> int {
        try {
          const Status status = std::forward<Body>(body)();
          return status ? static_cast<int>(DLLEARNER_OK) : keep_error(status.error());
        } catch (const std::bad_alloc&) {
          return keep_error(DLLEARNER_E_MEMORY, "out of memory");
        }
      });
}
