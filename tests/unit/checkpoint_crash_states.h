// SPDX-License-Identifier: Apache-2.0
// What a power loss may leave of recorded operations (checkpoint_model_io.h): of everything that no fsync made durable,
// any part may have reached the disk, in any order, writes torn at 4096 bytes. The idea is that of ALICE and
// CrashMonkey.
#pragma once

#include <functional>
#include <random>

#include "tests/unit/checkpoint_model_io.h"

namespace dl::ckpt::test {

struct CrashBounds {
  // Up to this number of operations that are not durable, all 2^n combinations are tried; if there are more, `samples`
  // of them.
  size_t exhaustive = 8;
  int samples = 48;
  uint32_t seed = 20260801;
  // Of so many states one is made. AddressSanitizer makes each take twenty times as long and looks at the code, not at
  // the states, of which the plain build makes all.
#if defined(__SANITIZE_ADDRESS__)
  static constexpr size_t kOneOf = 24;
#else
  static constexpr size_t kOneOf = 1;
#endif
};

// The disk after the first `count` operations, all of which are durable. for_each_crash() adds operations, and takes
// none back.
struct DurableState {
  ModelState state;
  size_t count = 0;
};

// Visits each state that a power loss after the first `count` operations may leave, equal states once; and its
// fingerprint(). `durable` is brought as far as it goes then: another call with it needs as many operations or more.
void for_each_crash(DurableState* durable, const std::vector<ModelOp>& ops, size_t count, const CrashBounds& bounds,
                    const std::function<void(const ModelState&, uint64_t)>& visit);

// A hash of all that can be reached from the root.
uint64_t fingerprint(const ModelState& state);

}  // namespace dl::ckpt::test
