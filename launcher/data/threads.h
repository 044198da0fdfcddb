// SPDX-License-Identifier: Apache-2.0
// Work that several threads share.
#pragma once

#include <cstddef>
#include <functional>

namespace dl::data {

// Calls job() in `count` threads at once, of which the calling one is the last, and returns when all calls have. Where
// the system starts no more threads, as at a limit of the user's processes, there are fewer calls, and at least one: a
// job takes from a common list what is to be done, until nothing is left. job must not throw.
void on_threads(size_t count, const std::function<void()>& job);

}  // namespace dl::data
