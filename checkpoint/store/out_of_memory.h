// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <new>

#include "common/base/result.h"

namespace dl::ckpt {

// Calls body(), which returns a Result. std::bad_alloc becomes an error, so that the other ranks can be informed;
// otherwise they would wait in vain.
template <typename Body>
auto or_out_of_memory(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Error{Errc::kInternal, "out of memory", ENOMEM};
  }
}

}  // namespace dl::ckpt
