// SPDX-License-Identifier: Apache-2.0
// What a run inside one allocation has learned, and what it decides by after the next failure: it stands in the events,
// so that a dlrun that takes the place of one that died goes on with it. A job that went back into the queue begins
// with an empty one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"

namespace dl::record {

struct Event;

struct RunMemory {
  int restarts = 0;                           // done after failures
  std::map<std::string, int> class_restarts;  // of these by class of failure
  int moved = 0;                              // attempts begun anew on the rest of the allocation
  std::vector<std::string> left_out;          // nodes of the allocation that its plans do without
  std::vector<std::string> lost;              // nodes that the newest attempt has lost, and no plan leaves out yet
  std::string excluded;                       // nodes that the job shall not get again, with commas between, or empty
  int64_t fence_unix_ms = 0;                  // no learner starts before: others may still run on a lost node
  std::string pause;                          // who was told that the job will be paused; empty: nobody
};
bool operator==(const RunMemory& a, const RunMemory& b);

// A member of an event. Members that are missing are empty.
Json to_json(const RunMemory& memory);
// kInvalid for a member of the wrong type.
Result<RunMemory> memory_from(const Json& json);

// What the newest of the events remembers that remember anything. Pure.
RunMemory remembered(const std::vector<Event>& events);

}  // namespace dl::record
