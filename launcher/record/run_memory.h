// SPDX-License-Identifier: Apache-2.0
// What dlrun has learned inside one allocation and needs after the next failure. It is stored in the events, so that a
// dlrun that replaces one that died continues with it. A job that starts from the queue begins with an empty one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"

namespace dl::record {

struct Event;

// A stop that dlrun had accepted. The names of causes are those of supervise/notice.h.
struct AcceptedStop {
  std::string cause;
  std::string who;          // text for people
  int signal = 0;           // the signal that dlrun got; 0: none
  int64_t deadline_ms = 0;  // Unix time at which processes may be killed; 0: none
  bool hold = false;        // somebody was promised that the job will be paused
};
bool operator==(const AcceptedStop& a, const AcceptedStop& b);

// RunMemory::store_host
constexpr char kStoreOfLearner0[] = "learner 0";
constexpr char kStoreWithoutLibuv[] = "learner 0 without libuv";

struct RunMemory {
  int restarts = 0;                           // number of restarts after failures
  std::map<std::string, int> class_restarts;  // the same by class of failure
  int moved = 0;                              // attempts that continued on other nodes of the allocation
  std::vector<std::string> left_out;          // nodes of the allocation that are no longer used
  std::vector<std::string> lost;              // nodes lost in the newest attempt that are not in left_out yet
  std::string excluded;                       // comma-separated nodes that the job must not get again, or empty
  int64_t fence_unix_ms = 0;                  // no learner may start earlier: old ones may still run on a lost node
  std::string store_host;                     // who hosts torch.distributed's store in place of dlrun; empty: dlrun
  std::optional<AcceptedStop> stop;           // a stop that has not been carried out
  std::string decided;                        // what follows the newest attempt (supervise/succession.h); or empty
};
bool operator==(const RunMemory& a, const RunMemory& b);

// The form of the member `memory` of an event; empty members are left out.
Json to_json(const RunMemory& memory);
// kInvalid for a member of the wrong type.
Result<RunMemory> memory_from(const Json& json);

// The memory of the newest event that has one; else an empty one. Pure.
RunMemory remembered(const std::vector<Event>& events);

}  // namespace dl::record
