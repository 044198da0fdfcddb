// SPDX-License-Identifier: Apache-2.0
// Runs the same work on many pieces in several threads.
#pragma once

#include <cstddef>
#include <functional>

#include "common/base/result.h"

namespace dl::ckpt {

// Calls work(index, thread) for each index below `count`, in rising order, in `threads` threads (including the calling
// one), which are numbered from 0. The first error stops it and is returned.
Status for_each_parallel(size_t count, size_t threads, const std::function<Status(size_t, size_t)>& work);
// The number of threads that are worth starting on this machine for reading and checking: the cores that this process
// may use, at most 16.
size_t useful_threads();

}  // namespace dl::ckpt
