// SPDX-License-Identifier: Apache-2.0
// A member's part of the user's object, as the runtime calls it: from one thread. Where one of these functions returns
// an error, the member ends as if it had been killed: its state may not be that of the copies any more.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "launcher/pool/once.h"

namespace dl::pool {

// What a member has measured since it was asked the last time.
struct Load {
  int members = 0;          // that the pool has
  int queued = 0;           // updates and reads that have come and are not carried out yet, at this moment
  double seconds = 0;       // for which the rest was measured
  double busy_seconds = 0;  // of them in the object's functions
  double cpu_seconds = 0;   // CPU time of the process
  uint64_t updates = 0, reads = 0;
};

class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  // Changes the state of one key. Owner and copy each carry it out, so that it may depend on nothing but state and
  // bytes.
  virtual Result<Answer> apply(int slot, std::string_view key, std::string_view bytes) = 0;
  virtual Result<Answer> read(int slot, std::string_view key, std::string_view bytes) = 0;
  // The state of all keys of a slot. With another error than kInternal the member does not end: the slot stays there,
  // without the copy for which it was to be saved.
  virtual Result<std::string> save(int slot) = 0;
  virtual Status load(int slot, std::string_view bytes) = 0;
  virtual void drop(int slot) = 0;  // forgets all keys of the slot
  virtual Result<int> wanted(const Load& load) = 0;
};

}  // namespace dl::pool
