// SPDX-License-Identifier: Apache-2.0
// Does something again and again on libuv's loop, until it has nothing more to do.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>

namespace dl::supervise {

// Calls `step` each interval_ms, for the first time in the next turn of the loop, until it returns true. uv_run() does
// not return before that, unless uv_stop() ends it: so a step has to return true also once nobody needs it any more.
void repeat(uv_loop_t* loop, uint64_t interval_ms, std::function<bool()> step);

}  // namespace dl::supervise
