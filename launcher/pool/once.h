// SPDX-License-Identifier: Apache-2.0
// The updates that a slot has seen, so that none is applied twice. Pure.
//
// The rule. A client numbers its updates of a slot 1, 2, 3, and so on, and has one under way at a time. A slot
// remembers of each client the last number that it applied, and the answer. The next number is applied; the same number
// again is answered as before, since the client has not heard the answer; and a number that leaves one out shows that
// the slot has lost an update, and is refused. This table belongs to the state of the slot: it moves and is copied with
// it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace dl::pool {

// What an object answers.
struct Answer {
  bool failed = false;  // then bytes is a sentence that says why, and the state is as it was
  std::string bytes;
};

constexpr size_t kMostClients = 8192;  // of one slot

class Once {
 public:
  enum class Verdict {
    kApply,   // it is the next one
    kRepeat,  // it was applied: give last() again
    kOld,     // a later one was applied, so nobody waits for this answer any more
    kGap,     // the update before it is missing here
    kFull,    // kMostClients other clients are remembered
  };
  Verdict judge(uint64_t client, uint64_t number) const;
  void note(uint64_t client, uint64_t number, Answer answer);  // after kApply
  const Answer& last(uint64_t client) const;                   // after kRepeat
  void forget(uint64_t client) { last_.erase(client); }        // it has said that it will not come again
  size_t clients() const { return last_.size(); }

  void write(std::string* to) const;
  // kCorrupt: these bytes were not made by write().
  static Result<Once> read(std::string_view bytes);

  bool operator==(const Once& other) const;

 private:
  struct Last {
    uint64_t number = 0;
    Answer answer;
  };
  std::map<uint64_t, Last> last_;
};

}  // namespace dl::pool
